//! Several processes, to which anything happens in any order.

use proptest::prelude::*;

use super::*;

/// What happens to one of several processes, or to the time.
#[derive(Clone, Copy, Debug)]
enum Happens {
    /// It does the next thing, if it waits for no answer; by a clock that is wrong by so many seconds.
    Acts(usize, i64),
    /// Its request is carried out.
    Reaches(usize),
    /// It hears what became of its request; a request that was not carried out yet may be so later.
    Answered(usize),
    /// It hears nothing more of its request.
    Unanswered(usize),
    /// A request that nobody waits for any more is carried out.
    ReachesLate(usize),
    /// It is asked to end.
    Resigns(usize),
    /// So many milliseconds pass.
    Passes(u64),
}

/// A process with a request under way.
struct Slow {
    process: Process,
    waits: Option<Waits>,
    late: Vec<Lease>,
    resigned: bool,
}

struct Waits {
    sent: Instant,
    write: Option<Lease>,
    /// What the server answered, once it was reached: of a look the Lease, of a write what is stored.
    answer: Option<Option<Lease>>,
}

impl Slow {
    fn happens(&mut self, what: Happens, server: &mut Server, now: Instant) {
        match what {
            Happens::Acts(_, skew) if self.waits.is_none() => {
                let clock = clock() + skew.seconds();
                let write = match self.process.election.next(now, clock) {
                    Step::Look => None,
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
            (None, Some(found)) => election.looked(now, found),
            (None, None) => election.not_looked(now),
            (Some(_), Some(Some(stored))) => election.written(waits.sent, now, stored),
            (Some(_), Some(None)) => election.not_written(now, true),
            (Some(lease), None) => {
                self.late.push(lease);
                election.not_written(now, false);
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

    /// Whatever is lost, late or slow, and whatever the clocks say; and once nothing is any more, somebody leads.
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
        // The others are gone; a new one comes.
        let mut last = Process::new("d", now);
        let bound = now + LEASE;
        last.run(&mut server, now, bound);
        prop_assert!(last.leads(bound));
    }
}
