//! Several processes with random events in random order.

use proptest::prelude::*;

use super::*;

#[derive(Clone, Copy, Debug)]
enum Happens {
    /// The process takes its next step unless it waits for an answer; its clock is wrong by so many seconds.
    Acts(usize, i64),
    Reaches(usize),
    /// It receives the answer to its request; a request not carried out yet may be later.
    Answered(usize),
    Unanswered(usize),
    /// The server carries out a request that no process waits for.
    ReachesLate(usize),
    Resigns(usize),
    /// So many milliseconds pass.
    Passes(u64),
}

struct Slow {
    process: Process,
    waits: Option<Waits>,
    late: Vec<Lease>,
    resigned: bool,
}

struct Waits {
    sent: Instant,
    write: Option<Lease>,
    /// The server's answer, once the request was carried out: for a read the Lease, for a write the stored one.
    answer: Option<Option<Lease>>,
}

impl Slow {
    fn happens(&mut self, what: Happens, server: &mut Server, now: Instant) {
        match what {
            Happens::Acts(_, skew) if self.waits.is_none() => {
                let clock = clock() + skew.seconds();
                let write = match self.process.election.next(now, clock) {
                    Step::Read => None,
                    Step::Write(lease) => Some(*lease),
                    _ => return,
                };
                self.waits = Some(Waits {
                    sent: now,
                    write,
                    answer: None,
                });
            }
            Happens::Reaches(_) => {
                if let Some(waits) = self.waits.as_mut().filter(|w| w.answer.is_none()) {
                    waits.answer = Some(match &waits.write {
                        Some(lease) => server.write(lease),
                        None => server.lease.clone(),
                    });
                }
            }
            Happens::Answered(_) | Happens::Unanswered(_) => {
                if let Some(waits) = self.waits.take() {
                    self.hears(waits, matches!(what, Happens::Answered(_)), now);
                }
            }
            Happens::ReachesLate(_) => {
                if let Some(lease) = self.late.pop() {
                    let _ = server.write(&lease);
                }
            }
            Happens::Resigns(_) => {
                self.resigned = true;
                self.process.election.resign(now);
            }
            Happens::Acts(..) | Happens::Passes(_) => {}
        }
    }

    fn hears(&mut self, waits: Waits, answered: bool, now: Instant) {
        let election = &mut self.process.election;
        match (waits.write, waits.answer.filter(|_| answered)) {
            (None, Some(found)) => election.read(now, found),
            (None, None) | (Some(_), Some(None)) => election.failed(now),
            (Some(_), Some(Some(stored))) => election.written(waits.sent, stored),
            (Some(lease), None) => {
                self.late.push(lease);
                election.failed(now);
            }
        }
    }
}

fn happens() -> impl Strategy<Value = Happens> {
    let who = || 0..3_usize;
    prop_oneof![
        6 => (who(), -100_000_000..100_000_000_i64).prop_map(|(who, skew)| Happens::Acts(who, skew)),
        6 => who().prop_map(Happens::Reaches),
        6 => who().prop_map(Happens::Answered),
        1 => who().prop_map(Happens::Unanswered),
        1 => who().prop_map(Happens::ReachesLate),
        1 => (0..30_usize).prop_map(|n| if n < 3 { Happens::Resigns(n) } else { Happens::Passes(0) }),
        4 => (1..6000_u64).prop_map(Happens::Passes),
        1 => (6000..40_000_u64).prop_map(Happens::Passes),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// At most one leads, whatever is lost, late or slow, and whatever the clocks show. Once nothing fails, one leads.
    /// Proves: P-leader
    #[test]
    fn never_do_two_lead_at_once_and_in_the_end_one_does(story in prop::collection::vec(happens(), 0..200)) {
        let mut now = Instant::now();
        let mut server = Server::default();
        let mut all: Vec<Slow> = ["a", "b", "c"]
            .into_iter()
            .map(|name| Slow { process: Process::new(name, now), waits: None, late: Vec::new(), resigned: false })
            .collect();
        for what in story {
            let who = match what {
                Happens::Passes(ms) => {
                    now += MS * u32::try_from(ms).unwrap();
                    0
                }
                Happens::Acts(who, _) | Happens::Reaches(who) | Happens::Answered(who)
                | Happens::Unanswered(who) | Happens::ReachesLate(who) | Happens::Resigns(who) => who,
            };
            all[who].happens(what, &mut server, now);
            let leading = all.iter().filter(|p| !p.resigned && p.process.leads(now)).count();
            prop_assert!(leading <= 1, "{leading} lead");
        }
        // The others have ended; a new one starts.
        let mut last = Process::new("d", now);
        let bound = now + LEASE;
        last.run(&mut server, now, bound);
        prop_assert!(last.leads(bound));
    }
}
