//! The lives of daemons, one after the other, on one machine: start, rounds, saves, signals, ends.

use std::fs::File;
use std::io::Write;

use txweir_core::Instant;
use txweir_core::base::rng::Rng;
use txweir_daemon::protocol::{Ask, Reply};
use txweir_daemon::whole::replace;
use txweir_daemon::{Daemon, Link, Links, Patience, RunOptions, Server};
use txweir_runtime::{Ledger, Notes};

use super::asks::{FIRST, tc};
use super::cards::Cards;
use super::check;
use super::clients::Client;
use super::disk::{CONFIG, Disk, Saver};
use super::machine::{Below, Ports};
use super::plan::{Lie, Plan};
use super::world::{Blow, Edit, Facts, SEC, Shared, World};

/// Virtual time in which everything that waits leaves: the slowest shaper here has a megabyte.
const REST_MAX: u64 = 600 * SEC;
/// Time in which the loop comes to an interface that has room.
const ROOM_MAX: u64 = SEC / 100;

/// Bytes that a daemon with ten links and 64 clients, and the world around it, may hold: some 2 MiB
/// a link, 4 MiB of frames an interface, 1 MiB a client that sends a line without an end.
const MEMORY_MAX: i64 = 128 << 20;

/// Most bytes of tables of all links, which some clients ask for more than.
const TABLES: u64 = 256 << 20;

/// Rounds of the loop in which every interface that is there is found.
const ATTEMPTS_MAX: u32 = 1000;

/// Rounds of the loop in which most of what does not wait for an interface ends.
const SETTLE_MAX: u32 = 100;

/// The words for the MTU of an interface.
const MTU_FOUND: &str = " --mtu 1500";

/// A log that goes into the hash of the run.
struct Log(Shared);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().note(5, bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// The result of a run.
#[derive(Clone, Copy, Debug)]
pub struct Done {
    pub hash: u64,
    pub steps: u64,
    pub rounds: u64,
    pub facts: Facts,
}

/// One run.
pub struct Lives {
    world: Shared,
    /// Nothing waits for it: the world says when the loop has to stop.
    stop: File,
    /// The configuration that was saved last with success, and those that may have replaced it.
    saved: Vec<String>,
    /// The number of the last process that saved.
    pid: u64,
    /// Bytes that were held before the run.
    before: i64,
}

impl Lives {
    pub fn new(seed: u64, lie: Option<Lie>) -> Self {
        let before = txweir_counted::held();
        let plan = Plan::of(seed);
        let world = World {
            plan,
            rng: Rng::new(seed),
            now: 1_000 * SEC,
            steps: 0,
            rounds: 0,
            hash: 0xcbf2_9ce4_8422_2325,
            stopped: 0,
            exhausted_until: 0,
            no_accept_until: 0,
            calm: false,
            idle: false,
            blow: None,
            backlog: Default::default(),
            conns: Default::default(),
            next_conn: 0,
            clients: (0..plan.clients).map(|_| Client::default()).collect(),
            cards: Cards::new(),
            disk: Disk::with(FIRST),
            pairs: 1,
            facts: Facts::default(),
            saves: Vec::new(),
            spins: 0,
            lie,
        };
        let stop = File::open("/dev/null").expect("there is one everywhere");
        Self { world: Shared::new(world), stop, saved: vec![FIRST.to_owned()], pid: 100, before }
    }

    /// Returns the steps so far.
    pub fn steps(&self) -> u64 {
        self.world.lock().steps
    }

    /// Runs at least so many steps, and then to a rest.
    pub fn run(&mut self, steps: u64) -> Done {
        let mut server = self.start();
        while self.steps() < steps {
            let goes_on =
                server.round(&self.stop, &RunOptions::default(), None).expect("waiting does not fail");
            check::links(server.daemon_mut(), &self.world);
            self.memory();
            if self.world.lock().rounds.is_multiple_of(32) {
                self.pair(&mut server);
            }
            self.save();
            if goes_on {
                continue;
            }
            let blow = self.world.lock().blow.take().expect("a reason to stop");
            self.world.lock().note(6, format!("{blow:?}").as_bytes());
            match blow {
                Blow::Hangup(edit) => self.reload(&mut server, edit),
                Blow::Rest => self.rest(&mut server),
                Blow::Terminate | Blow::Kill | Blow::PowerLoss => {
                    drop(server);
                    self.end(blow);
                    server = self.start();
                }
            }
        }
        self.rest(&mut server);
        drop(server);
        let world = self.world.lock();
        Done { hash: world.hash, steps: world.steps, rounds: world.rounds, facts: world.facts }
    }

    /// Checks the memory that is held: links, frames, and requests and replies of 64 clients.
    fn memory(&self) {
        let mut world = self.world.lock();
        let held = txweir_counted::held() - self.before;
        world.facts.memory = world.facts.memory.max(held);
        assert!(held < MEMORY_MAX, "{held} bytes are held");
    }

    /// Returns a daemon that has read the configuration of the disk.
    fn start(&mut self) -> Server<Below> {
        let mut text = self.world.lock().disk.config();
        assert!(self.saved.contains(&text), "the disk has what nobody saved:\n{text}");
        let written = text.clone();
        let forgets =
            self.world.lock().lies(Lie::LineForgotten) || self.world.lock().lie == Some(Lie::LineForgotten);
        if forgets && text != FIRST {
            text = text
                .lines()
                .rev()
                .skip(1)
                .collect::<Vec<_>>()
                .into_iter()
                .rev()
                .map(|l| format!("{l}\n"))
                .collect();
        }
        self.unplug();
        let faults = self.world.lock().facts.open_faults;
        let mut daemon = self.daemon();
        let reply = configure(&self.world, &mut daemon, &text);
        if reply.status != 0 {
            // The system was in trouble: the next start finds all. A missing interface is awaited.
            let trouble = self.world.lock().facts.open_faults > faults;
            assert!(trouble, "a configuration that was saved is not read:\n{text}\n{}", reply.stderr);
            self.repair();
            self.world.lock().calm = true;
            daemon = self.daemon();
            let reply = configure(&self.world, &mut daemon, &text);
            assert_eq!((reply.status, reply.stderr.as_str()), (0, ""), "{text}");
            self.world.lock().calm = false;
        }
        let saved = save_of(&self.world, &mut daemon);
        if written == FIRST {
            // Written by hand: the first save writes the rest.
            let mut saver = Saver { world: self.world.clone(), pid: self.pid };
            let fails = std::mem::take(&mut self.world.lock().disk.fails);
            replace(&mut saver, &saved).expect("a disk that does not fail");
            self.world.lock().disk.fails = fails;
            self.saved = vec![saved.clone()];
        } else {
            same(&saved, &written, "the state after a restart is not what was saved");
        }
        let server = Server::on(Below(self.world.clone()), daemon).with_logged_changes(true);
        let mut server = server.with_patience(Patience::default());
        self.attach(&mut server, &saved);
        server
    }

    /// Removes an interface before some starts.
    fn unplug(&self) {
        let mut world = self.world.lock();
        let cards = world.cards.all.len() as u64;
        let card = world.rng.below(cards) as usize;
        if world.plan.cards && world.once_in(3) && world.cards.all[card].is_there() {
            world.toggle(card);
        }
    }

    /// Checks that the links whose interfaces are missing wait for them, and sometimes lets these
    /// appear: each link is attached, with the configuration that it was started with.
    fn attach(&self, server: &mut Server<Below>, configuration: &str) {
        let mut waiting = 0;
        for link in server.daemon_mut().links().all() {
            let card = link.endpoint.as_ref().and_then(|e| self.world.lock().cards.find(e.name.as_str()));
            let missing = card.is_some_and(|card| !self.world.lock().cards.all[card].is_there());
            assert_eq!(link.state() == "waiting", missing, "link {} after a start", link.name);
            waiting += u64::from(missing);
        }
        self.world.lock().facts.waited += u64::from(waiting > 0);
        if waiting == 0 || !self.world.lock().once_in(2) {
            return;
        }
        self.repair();
        self.world.lock().calm = true;
        for _ in 0..ATTEMPTS_MAX {
            server.round(&self.stop, &RunOptions::default(), None).expect("waiting does not fail");
            check::links(server.daemon_mut(), &self.world);
            waiting = server.daemon_mut().links().all().iter().filter(|link| link.is_away()).count() as u64;
            if waiting == 0 {
                break;
            }
        }
        assert_eq!(waiting, 0, "links still wait for interfaces that are there");
        let saved = save_of(&self.world, server.daemon_mut());
        same(&saved, configuration, "a link was not attached as it was configured");
        self.calm_ends();
    }

    /// Ends a calm: interfaces get full again.
    fn calm_ends(&self) {
        let mut world = self.world.lock();
        world.calm = false;
        world.cards.all.iter_mut().for_each(|card| card.room = 64);
    }

    fn daemon(&self) -> Daemon {
        self.world.lock().cards.forget();
        self.world.lock().no_accept_until = 0;
        let mut links = Links::on(Ports(self.world.clone()));
        links.set_tables(TABLES);
        *links.notes_mut() = Notes::new(Box::new(Log(self.world.clone())));
        Daemon::with(links)
    }

    /// Makes all interfaces be there, up and with room.
    fn repair(&self) {
        let mut world = self.world.lock();
        for card in 0..world.cards.all.len() {
            if !world.cards.all[card].is_there() {
                world.toggle(card);
            }
            world.cards.all[card].up = true;
            world.cards.all[card].room = usize::MAX / 2;
        }
        world.exhausted_until = 0;
        world.stopped = 0;
    }

    /// Checks that two qdiscs that change together have changed together.
    fn pair(&self, server: &mut Server<Below>) {
        let limit = |name: &str, server: &mut Server<Below>| {
            let now = Instant(self.world.lock().now);
            let shown = server.daemon_mut().answer(now, &tc(&format!("qdisc show dev {name}"))).stdout;
            let word =
                shown.split("limit ").nth(1).and_then(|rest| rest.split('p').next()).map(str::parse::<u64>);
            word.and_then(Result::ok).unwrap_or_else(|| panic!("{name}: {shown}"))
        };
        let [x, y] = ["gx", "gy"].map(|name| limit(name, server));
        assert_eq!(x, y, "an atomic batch was done in part");
        assert_eq!(x % 2, 0, "a batch that was refused, or only rehearsed, has changed something");
    }

    /// Lets clients save the configurations that they were given.
    fn save(&mut self) {
        let texts = std::mem::take(&mut self.world.lock().saves);
        for text in texts {
            self.pid += 1;
            let faults = self.world.lock().plan.disk;
            let killed = {
                let mut world = self.world.lock();
                let killed = faults && world.once_in(6);
                let after = world.rng.below(8) as u32;
                world.disk.killed_after = killed.then_some(after);
                killed
            };
            let mut saver = Saver { world: self.world.clone(), pid: self.pid };
            let done = replace(&mut saver, &text);
            let mut world = self.world.lock();
            world.disk.killed_after = None;
            world.facts.saves += 1;
            world.note(7, text.as_bytes());
            let there = world.disk.config();
            match done {
                Ok(()) => {
                    assert_eq!(there, text, "a file that was written is not there");
                    self.saved = vec![text];
                }
                Err(error) => {
                    world.facts.failed_saves += 1;
                    assert!(
                        there == text || self.saved.contains(&there),
                        "after {error} the file is neither the old one nor the new one"
                    );
                    assert!(killed || world.disk.fails, "a sound disk failed: {error}");
                    self.saved.push(text);
                }
            }
            // Files of processes that were killed are removed by the next one.
            let files = world.disk.files();
            assert!(killed || world.disk.fails || files == 1, "{files} files are left in the folder");
        }
    }

    /// Reads a configuration again, as SIGHUP has it.
    fn reload(&mut self, server: &mut Server<Below>, edit: Edit) {
        let before = save_of(&self.world, server.daemon_mut());
        let text = match edit {
            Edit::Saved => self.world.lock().disk.config(),
            Edit::Good | Edit::Broken => self.world.lock().edited(edit == Edit::Broken),
        };
        let now = Instant(self.world.lock().now);
        let reply = server.daemon_mut().reload(now, CONFIG, &text);
        let after = save_of(&self.world, server.daemon_mut());
        self.world.lock().facts.reloads += 1;
        self.world.lock().note(8, after.as_bytes());
        if reply.status != 0 {
            self.world.lock().facts.refused_reloads += 1;
            let told =
                format!("a configuration was refused, and changed something: {text}\n{}", reply.stderr);
            same(&after, &before, &told);
        } else {
            assert_ne!(edit, Edit::Broken, "a wrong configuration was taken: {text}");
            let first = text.lines().next().unwrap_or_default();
            let led = first.replace("led --mtu", "led --type null --mtu") + " --txqueuelen";
            assert!(edit != Edit::Good || after.contains(&led), "not done: {text}\n{after}");
            let calm = std::mem::replace(&mut self.world.lock().calm, true);
            let now = Instant(self.world.lock().now);
            let again = server.daemon_mut().reload(now, CONFIG, &text);
            self.world.lock().calm = calm;
            if again.status == 0 {
                let twice = save_of(&self.world, server.daemon_mut());
                same(&twice, &after, &format!("a configuration that was read twice differs: {text}"));
            }
        }
        check::links(server.daemon_mut(), &self.world);
    }

    /// Ends a life.
    fn end(&mut self, blow: Blow) {
        let mut world = self.world.lock();
        let world = &mut *world;
        match blow {
            Blow::Terminate => world.facts.terminations += 1,
            Blow::Kill => world.facts.kills += 1,
            _ => world.facts.power_losses += 1,
        }
        world.daemon_ended(blow != Blow::Terminate);
        (world.facts.sent, world.facts.doubtful) = (0, 0);
        if blow == Blow::PowerLoss {
            let mut rng = Rng::new(world.rng.next_u64());
            world.disk.lose_power(&mut rng);
            let left = world.disk.config();
            assert!(self.saved.contains(&left), "a loss of power left what nobody saved:\n{left}");
            self.saved = vec![left];
        }
    }

    /// Lets everything end that does not wait for an interface: only the interfaces wake the loop
    /// then, or the watchdog, which has given up the first of their frames. A link whose packets
    /// wait for none has told the loop its next time.
    fn settle(&self, server: &mut Server<Below>) {
        {
            let mut world = self.world.lock();
            (world.calm, world.idle, world.blow) = (true, false, None);
            (world.stopped, world.exhausted_until) = (0, 0);
        }
        let before = timeouts(server);
        for _ in 0..SETTLE_MAX {
            if timeouts(server) != before {
                break;
            }
            // A round waits first: then it would send the packets of a deadline that was lost.
            let lost = held(server, |link| !link.is_away() && !link.way.waits_for_device());
            server.round(&self.stop, &RunOptions::default(), None).expect("waiting does not fail");
            check::links(server.daemon_mut(), &self.world);
            if self.world.lock().idle {
                assert!(lost.is_empty(), "packets wait for no interface, and the loop for nothing: {lost:?}");
                break;
            }
        }
    }

    /// Lets everything that is under way end, and checks that nothing is left.
    fn rest(&mut self, server: &mut Server<Below>) {
        self.settle(server);
        self.repair();
        let began = {
            let mut world = self.world.lock();
            world.calm = true;
            world.idle = false;
            world.blow = None;
            world.facts.rests += 1;
            world.now
        };
        let before = timeouts(server);
        // Without its word the watchdog's next look would find the room, up to a second later.
        let full = server.daemon_mut().links().all().iter().any(|link| link.way.waits_for_device());
        let mut soon = full.then_some(began + ROOM_MAX);
        loop {
            let held = held(server, |_| true);
            // A leap of the clock would look like a loop that comes late.
            let leaps = soon.map(|_| std::mem::take(&mut self.world.lock().plan.clock));
            server.round(&self.stop, &RunOptions::default(), None).expect("waiting does not fail");
            if let Some(soon) = soon.take() {
                let now = self.world.lock().now;
                assert!(now <= soon, "an interface has room, and the loop does not come: {held:?}");
            }
            if let Some(leaps) = leaps {
                self.world.lock().plan.clock = leaps;
            }
            check::links(server.daemon_mut(), &self.world);
            let world = self.world.lock();
            let (now, idle) = (world.now, world.idle);
            drop(world);
            assert!(!idle || held.is_empty(), "packets wait, and the loop waits for nothing: {held:?}");
            assert!(now - began < REST_MAX, "packets still wait: {held:?}");
            if idle {
                break;
            }
        }
        assert_eq!(timeouts(server), before, "the watchdog gave up frames of interfaces that have room");
        for link in server.daemon_mut().links_mut().all_mut() {
            assert!(!link.is_away(), "link {}: its interface is there again", link.name);
        }
        let generated = server.daemon_mut().links().find("led").expect("nobody removes it").passed.generated;
        let world = self.world.lock();
        let unanswered = world.unanswered();
        assert!(unanswered.is_empty(), "clients {unanswered:?} wait for answers");
        let kept = world.kept();
        assert!(kept.is_empty(), "clients {kept:?} have ended, and still have their places");
        let Facts { sent, doubtful, .. } = world.facts;
        assert!(
            (sent..=sent + doubtful).contains(&generated),
            "{generated} packets were generated, {sent} were confirmed, {doubtful} are in doubt"
        );
        drop(world);
        self.calm_ends();
    }
}

/// Returns those of the links of which `of` is true that have packets that have not left, with
/// their fates and places.
fn held(server: &mut Server<Below>, of: impl Fn(&Link) -> bool) -> Vec<(String, Ledger)> {
    let links = server.daemon_mut().links().all().iter().filter(|link| of(link));
    let all = links.map(|link| (link.name.to_string(), link.way.ledger()));
    all.filter(|(_, fates)| fates.queued + fates.waiting + fates.inflight > 0).collect()
}

/// Returns how often the watchdog of each link has given up frames.
fn timeouts(server: &mut Server<Below>) -> Vec<u64> {
    server.daemon_mut().links().all().iter().map(|link| link.way.stats().timeouts).collect()
}

/// Checks that two configurations are equal, and names the first line that differs. A link that
/// has not found its interface yet is saved without the MTU that the interface has.
fn same(is: &str, expected: &str, told: &str) {
    if is.replace(MTU_FOUND, "") != expected.replace(MTU_FOUND, "") {
        let line = is.lines().zip(expected.lines()).find(|(is, expected)| is != expected);
        let [is, expected] = [is, expected].map(|text| text.lines().count());
        panic!("{told}: {line:#?}, {is} lines for {expected}");
    }
}

fn configure(world: &Shared, daemon: &mut Daemon, text: &str) -> Reply {
    let now = Instant(world.lock().now);
    daemon.configure(now, CONFIG, text)
}

/// Returns the configuration of a daemon.
fn save_of(world: &Shared, daemon: &mut Daemon) -> String {
    let now = Instant(world.lock().now);
    daemon.answer(now, &Ask::Save).stdout
}
