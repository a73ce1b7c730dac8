//! Mutations of seeds by a seeded generator.

use txweir_core::base::rng::Rng;
use txweir_fuzzed::dictionary;

/// Most mutations of one input.
const STEPS_MAX: u64 = 6;
/// Most bytes that a mutation inserts or removes.
const PART_MAX: usize = 64;

/// Numbers at which arithmetic breaks.
const EDGES: [u64; 10] = [0, 1, 127, 128, 255, 65_535, 1 << 31, u32::MAX as u64, i64::MAX as u64, u64::MAX];

/// Makes inputs out of seeds.
pub struct Mutator<'a> {
    seeds: &'a [Vec<u8>],
    words: Vec<Vec<u8>>,
    len_max: usize,
    rng: Rng,
}

impl<'a> Mutator<'a> {
    /// `text` adds the words of the languages and of the seeds.
    pub fn new(seeds: &'a [Vec<u8>], len_max: usize, text: bool, seed: u64) -> Self {
        let mut words: Vec<Vec<u8>> = Vec::new();
        if text {
            words.extend(dictionary::words().into_iter().map(|word| word.as_bytes().to_vec()));
            let of_seed = |seed: &'a Vec<u8>| seed.split(|b| b" \n\t\"=,:[]{}".contains(b));
            words.extend(
                seeds.iter().flat_map(of_seed).filter(|w| (1..24).contains(&w.len())).map(<[u8]>::to_vec),
            );
            words.sort_unstable();
            words.dedup();
        }
        Self { seeds, words, len_max, rng: Rng::new(seed) }
    }

    fn below(&mut self, n: usize) -> usize {
        // The low bits of a product suffice: the bias does not matter here.
        ((u128::from(self.rng.next_u64()) * n as u128) >> 64) as usize
    }

    fn part(&mut self, len: usize) -> std::ops::Range<usize> {
        let start = self.below(len + 1);
        let most = (len - start).min(PART_MAX);
        start..start + self.below(most + 1)
    }

    /// Returns the next input.
    pub fn next(&mut self) -> Vec<u8> {
        let seed = self.below(self.seeds.len());
        let mut input = self.seeds[seed].clone();
        for _ in 0..=self.rng.next_u64() % STEPS_MAX {
            self.step(&mut input);
        }
        input.truncate(self.len_max);
        input
    }

    fn step(&mut self, input: &mut Vec<u8>) {
        let len = input.len();
        match self.below(if self.words.is_empty() { 7 } else { 12 }) {
            0 if len > 0 => {
                let at = self.below(len);
                input[at] ^= 1 << self.below(8);
            }
            1 if len > 0 => {
                let at = self.below(len);
                input[at] = self.rng.next_u64() as u8;
            }
            2 => drop(input.drain(self.part(len))),
            3 => {
                let (part, at) = (self.part(len), self.below(len + 1));
                let bytes = input[part].to_vec();
                input.splice(at..at, bytes);
            }
            4 => {
                let other = self.below(self.seeds.len());
                let from = self.part(self.seeds[other].len());
                let (bytes, to) = (self.seeds[other][from].to_vec(), self.part(len));
                input.splice(to, bytes);
            }
            5 => {
                // The front of this seed and the end of another.
                let (at, other) = (self.below(len + 1), self.below(self.seeds.len()));
                let from = self.below(self.seeds[other].len() + 1);
                input.truncate(at);
                input.extend_from_slice(&self.seeds[other][from..]);
            }
            6 => {
                let edge = EDGES[self.below(EDGES.len())];
                let width = [1, 2, 4, 8][self.below(4)];
                let at = self.below(len + 1);
                let end = (at + width).min(len);
                let bytes = edge.to_be_bytes();
                input[at..end].copy_from_slice(&bytes[8 - (end - at)..]);
            }
            7 | 8 => {
                let to = self.word_of(input);
                let word = self.below(self.words.len());
                input.splice(to, self.words[word].clone());
            }
            9 => {
                let at = self.word_of(input).start;
                let word = self.below(self.words.len());
                let bytes = [&self.words[word][..], b" "].concat();
                input.splice(at..at, bytes);
            }
            10 => {
                let edge = EDGES[self.below(EDGES.len())].to_string();
                if let Some(start) = input.iter().skip(self.below(len + 1)).position(u8::is_ascii_digit) {
                    let end = start + input[start..].iter().take_while(|b| b.is_ascii_digit()).count();
                    input.splice(start..end, edge.into_bytes());
                }
            }
            _ => {
                let lines: Vec<&[u8]> = input.split(|b| *b == b'\n').collect();
                let (from, to) = (self.below(lines.len()), self.below(lines.len()));
                let mut all: Vec<&[u8]> = lines.clone();
                match self.below(3) {
                    0 => all.swap(from, to),
                    1 => all.insert(to, lines[from]),
                    _ => drop(all.remove(from)),
                }
                *input = all.join(&b'\n');
            }
        }
    }

    /// Returns the place of a word.
    fn word_of(&mut self, input: &[u8]) -> std::ops::Range<usize> {
        let is_word = |b: &u8| !b" \n\t\"=,:[]{}".contains(b);
        let near = self.below(input.len() + 1);
        let start = input[..near].iter().rposition(|b| !is_word(b)).map_or(0, |at| at + 1);
        start..start + input[start..].iter().take_while(|b| is_word(b)).count()
    }
}

#[test]
fn one_seed_gives_the_same_inputs_and_another_gives_others() {
    let seeds =
        [b"qdisc add dev a root pfifo limit 10\nqdisc del dev a root\n".to_vec(), vec![], vec![0; 90]];
    let all = |seed| {
        let mut mutator = Mutator::new(&seeds, 80, true, seed);
        (0..2000).map(|_| mutator.next()).collect::<Vec<_>>()
    };
    let one = all(1);
    assert!(one == all(1) && one != all(2));
    assert!(one.iter().all(|input| input.len() <= 80));
    let mut sorted = one.clone();
    sorted.sort();
    sorted.dedup();
    assert!(sorted.len() > 1200, "{} of 2000 inputs differ", sorted.len());
}
