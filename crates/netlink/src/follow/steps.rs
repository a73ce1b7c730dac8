//! The lines of a state, and the steps that lead from one state to another.

use std::collections::{BTreeMap, BTreeSet};

/// A line that makes an object, and the line that removes it, each without the word of its verb.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Line {
    pub(super) noun: Noun,
    pub(super) name: String,
    pub(super) words: Vec<String>,
    /// The words that remove it.
    pub(super) place: Vec<String>,
    /// The words by which it is compared; those of the actions of a filter are their own lines'.
    pub(super) is: Vec<String>,
    /// The table of a filter, or the chain.
    pub(super) table: Option<Table>,
}

/// The kind of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Noun {
    Qdisc,
    Class,
    Chain,
    Filter,
    /// An action that a command of its own has made.
    Action,
    /// An action that comes and goes with its filters.
    Held,
}

/// The filters of one kind, priority and protocol in a chain.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Table {
    /// The words of the owner: a place of a device, or a block.
    pub(super) owner: Vec<String>,
    pub(super) chain: u32,
    /// The words that remove it, behind those of the owner; none for a chain.
    pub(super) words: Vec<String>,
    /// True for a hash table of u32, which filters of other priorities may link to.
    pub(super) is_hash: bool,
}

/// The lines of a state.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Copied {
    /// In an order in which they can be made.
    pub(super) lines: Vec<Line>,
    /// Numbers of the blocks that the device shares with others.
    pub(super) blocks: BTreeSet<u32>,
    /// A sentence for each object that is not copied.
    pub left_out: Vec<String>,
}

/// A change that leads to another state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// The words of tc.
    pub words: Vec<String>,
    /// True if the state is right although the step is refused: what it removes is held by others,
    /// or is gone.
    pub may_fail: bool,
}

/// The place of an object.
type Key<'a> = (Noun, &'a [String]);

impl Noun {
    const fn word(self) -> &'static str {
        match self {
            Self::Qdisc => "qdisc",
            Self::Class => "class",
            Self::Chain => "chain",
            Self::Filter => "filter",
            Self::Action | Self::Held => "actions",
        }
    }
    /// Returns the verb that makes it.
    const fn verb(self) -> &'static str {
        match self {
            Self::Chain | Self::Filter => "add",
            Self::Qdisc | Self::Class | Self::Action | Self::Held => "replace",
        }
    }
}

impl Step {
    fn new(noun: Noun, verb: &str, words: &[String]) -> Self {
        let head = [noun.word().to_string(), verb.to_string()];
        let words = head.into_iter().chain(words.iter().cloned()).collect();
        Self { words, may_fail: noun == Noun::Action && verb == "del" }
    }
}

impl Line {
    fn make(&self) -> Step {
        Step::new(self.noun, self.noun.verb(), &self.words)
    }
    fn key(&self) -> Key<'_> {
        (self.noun, &self.place)
    }
    fn after(&self, word: &str) -> Option<&str> {
        let at = self.words.iter().position(|one| one == word)?;
        self.words.get(at + 1).map(String::as_str)
    }
    /// Returns its handle, if it has one that others name as their parent.
    fn handle(&self) -> Option<&str> {
        match self.noun {
            Noun::Qdisc if matches!(&*self.name, "ingress" | "clsact") => Some("ffff:"),
            Noun::Qdisc => self.after("handle"),
            Noun::Class => self.after("classid"),
            _ => None,
        }
    }
    /// True if one can become the other without being removed.
    fn can_become(&self, other: &Self) -> bool {
        match self.noun {
            Noun::Qdisc | Noun::Class => {
                self.name == other.name
                    && self.handle() == other.handle()
                    && self.after("parent") == other.after("parent")
            }
            Noun::Action | Noun::Held => true,
            // A filter inherits from the one that it replaces, which a listing does not tell.
            Noun::Chain | Noun::Filter => self.is == other.is,
        }
    }
    /// True if it goes with one of these objects, or with one of these chains.
    fn goes_with(&self, gone: &BTreeSet<&str>, chains: &BTreeSet<(&[String], u32)>) -> bool {
        if matches!(self.noun, Noun::Action | Noun::Held) {
            return false;
        }
        let chain = self.table.as_ref().filter(|_| self.noun == Noun::Filter);
        let above = self.after("parent").or_else(|| self.handle().filter(|_| self.noun == Noun::Class));
        let qdisc = above.and_then(|above| above.get(..=above.find(':')?));
        above.is_some_and(|above| gone.contains(above))
            || qdisc.is_some_and(|of| gone.contains(of))
            || chain.is_some_and(|table| chains.contains(&(&*table.owner, table.chain)))
    }
}

impl Copied {
    /// Returns the number of objects, without the actions.
    #[must_use]
    pub fn len(&self) -> usize {
        self.lines.iter().filter(|line| !matches!(line.noun, Noun::Action | Noun::Held)).count()
    }
    /// True if there is no object.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }
    /// Returns the numbers of the blocks that the device shares with others.
    pub fn blocks(&self) -> impl Iterator<Item = u32> {
        self.blocks.iter().copied()
    }

    /// Returns the steps from another state to this one: actions that filters hold, removals,
    /// children first, then what is new or different, parents first.
    #[must_use]
    pub fn steps_from(&self, before: &Self) -> Vec<Step> {
        let stay = self.stay(before);
        let is_different = |line: &Line| stay.get(&line.key()).is_some_and(|old| old.is != line.is);
        // A held action changes while its filters are there.
        let held = self.lines.iter().filter(|line| line.noun == Noun::Held && is_different(line));
        let mut steps: Vec<Step> = held.map(Line::make).collect();
        steps.extend(before.removals(&stay));
        let made = self.lines.iter().filter(|line| line.noun != Noun::Held);
        let made = made.filter(|line| !stay.contains_key(&line.key()) || is_different(line));
        steps.extend(made.map(Line::make));
        steps
    }

    /// Returns the steps that make this state on a device, whatever it has.
    #[must_use]
    pub fn steps_from_nothing(&self) -> Vec<Step> {
        self.steps_from(&Self::default())
    }

    /// Returns the lines of another state that stay, changed or not.
    fn stay<'a>(&self, before: &'a Self) -> BTreeMap<Key<'a>, &'a Line> {
        let now: BTreeMap<_, &Line> = self.lines.iter().map(|line| (line.key(), line)).collect();
        let (mut stay, mut gone, mut chains) = (BTreeMap::new(), BTreeSet::new(), BTreeSet::new());
        for line in &before.lines {
            let goes = line.goes_with(&gone, &chains);
            if !goes && now.get(&line.key()).is_some_and(|new| line.can_become(new)) {
                stay.insert(line.key(), line);
                continue;
            }
            gone.extend(line.handle());
            if let (Noun::Chain, Some(table)) = (line.noun, &line.table) {
                chains.insert((&*table.owner, table.chain));
            }
        }
        let hashed: BTreeSet<&[String]> = [before, self].into_iter().flat_map(Self::hashed).collect();
        let (was, is) = (before.units(&hashed), self.units(&hashed));
        for (unit, lines) in &was {
            let stays: Vec<Key<'_>> =
                lines.iter().map(|l| l.key()).filter(|k| stay.contains_key(k)).collect();
            let new = is.get(unit).map_or(&[][..], Vec::as_slice);
            let is_prefix =
                new.len() >= stays.len() && new.iter().zip(&stays).all(|(l, key)| l.key() == *key);
            let is_kept = if unit.is_u32 { stays.len() == lines.len() } else { is_prefix };
            if !is_kept {
                for key in &stays {
                    stay.remove(key);
                }
            }
        }
        stay
    }

    /// Returns the owners whose filters of u32 have hash tables of their own.
    fn hashed(&self) -> impl Iterator<Item = &[String]> {
        let tables = self.lines.iter().filter_map(|line| line.table.as_ref());
        tables.filter(|table| table.is_hash).map(|table| &*table.owner)
    }

    /// Returns the lines of filters that are made anew together: of kinds whose filters are tried
    /// in the order in which they were made, and of u32, where no message chooses the number of a
    /// priority's own table.
    fn units<'a>(&'a self, hashed: &BTreeSet<&[String]>) -> BTreeMap<Unit<'a>, Vec<&'a Line>> {
        let mut units: BTreeMap<Unit<'a>, Vec<&'a Line>> = BTreeMap::new();
        for line in self.lines.iter().filter(|line| line.noun == Noun::Filter) {
            let Some(table) = &line.table else { continue };
            let is_u32 = line.name == "u32";
            if !is_u32 && !super::filters::IN_ORDER.contains(&&*line.name) {
                continue;
            }
            // Filters may link to a hash table from any priority.
            let whole = is_u32 && hashed.contains(&*table.owner);
            let place = if whole { None } else { Some((table.chain, &*table.words)) };
            units.entry(Unit { owner: &table.owner, place, is_u32 }).or_default().push(line);
        }
        units
    }

    /// Returns the removals of what does not stay, children first. An object goes with its parent,
    /// and the filters of a table go at once.
    fn removals(&self, stay: &BTreeMap<Key<'_>, &Line>) -> Vec<Step> {
        let (mut gone, mut chains) = (BTreeSet::new(), BTreeSet::new());
        let filters = self.lines.iter().filter(|line| line.noun == Noun::Filter);
        let kept = filters.filter(|line| stay.contains_key(&line.key()));
        let kept: BTreeSet<_> = kept.filter_map(|line| Some(line.table.as_ref()?.key())).collect();
        let (mut removed, mut all) = (BTreeSet::new(), Vec::new());
        for line in self.lines.iter().filter(|line| !stay.contains_key(&line.key())) {
            let goes = line.goes_with(&gone, &chains);
            gone.extend(line.handle());
            if let (Noun::Chain, Some(table)) = (line.noun, &line.table) {
                chains.insert((&*table.owner, table.chain));
            }
            match (&line.table, line.noun) {
                _ if goes => {}
                (_, Noun::Held) => {}
                (Some(table), Noun::Filter) if !kept.contains(&table.key()) => {
                    if removed.insert(table.key()) {
                        let words: Vec<String> = table.owner.iter().chain(&table.words).cloned().collect();
                        all.push(Step::new(line.noun, "del", &words));
                    }
                }
                _ => all.push(Step::new(line.noun, "del", &line.place)),
            }
        }
        all.reverse();
        // Filters hold actions, and those go last.
        all.sort_by_key(|step| step.may_fail);
        all
    }
}

impl Table {
    /// Returns its owner, its chain, and its words there.
    fn key(&self) -> (&[String], u32, &[String]) {
        (&self.owner, self.chain, &self.words)
    }
}

/// Filters that are made anew together.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Unit<'a> {
    owner: &'a [String],
    /// The chain and the words of the table; `None` for all of an owner.
    place: Option<(u32, &'a [String])>,
    is_u32: bool,
}
