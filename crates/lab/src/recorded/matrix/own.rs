//! Agreement of Linux with itself after small changes.

use txweir_core::base::rng::Rng;

use super::compare::{Compared, Pair, is_inside, median};

/// Number of draws for each row.
const DRAWS: u64 = 200;

/// Returns the number of rows in which Linux is inside the bands of its own median, by the
/// bootstrap (B. Efron, 1979). For each row two sets of as many runs as it has are drawn from them,
/// with replacement. The comparison covers the medians of every quantity that repetitions have. The
/// result is no upper bound for a model that plays the same starts. The same rows give the same
/// number.
pub fn agreeing(rows: &[Compared]) -> f64 {
    let mut rng = Rng::new(1);
    rows.iter().map(|row| share(row, &mut rng)).sum()
}

/// Returns the share of draws in which both sets agree.
fn share(row: &Compared, rng: &mut Rng) -> f64 {
    let runs = row.run.spread.len() as u64 + 1;
    let pairs: Vec<&Pair> = row.pairs.iter().filter(|p| row.is_repeated(p.quantity)).collect();
    let values: Vec<Vec<Option<f64>>> = pairs.iter().map(|p| row.linux(p)).collect();
    let mut agree = 0;
    for _ in 0..DRAWS {
        let [one, other]: [Vec<usize>; 2] =
            std::array::from_fn(|_| (0..runs).map(|_| rng.below(runs) as usize).collect());
        let of =
            |values: &[Option<f64>], set: &[usize]| median(set.iter().filter_map(|i| values[*i]).collect());
        let agrees =
            |(pair, values): (&&Pair, &Vec<Option<f64>>)| match (of(values, &one), of(values, &other)) {
                (there @ Some(_), here @ Some(_)) => is_inside(pair.quantity, there, here),
                _ => true,
            };
        agree += u64::from(pairs.iter().zip(&values).all(agrees));
    }
    agree as f64 / DRAWS as f64
}
