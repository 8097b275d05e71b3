//! Every action that may be taken.

use super::{Action, Pause};
use crate::model::Model;
use crate::process::{self, Fate};
use crate::service::{self, Answer};
use crate::state::{Call, Place, RunState, State, Wake};

/// Every action that may be taken; some have no effect.
pub(crate) fn possible(m: &Model, s: &State, actions: &mut Vec<Action>) {
    processes(s, actions);
    requests(m, s, actions);
    actions.extend((0..s.writes.len()).map(Action::LateWrite));
    let left = s.left;
    if left.users > 0 {
        actions.extend(m.scenario.users.iter().map(|u| Action::User(*u)));
    }
    if left.turns > 0 {
        actions.extend(m.scenario.turns.iter().map(|t| Action::Turn(*t)));
    }
    if process::may_leave(s) {
        actions.push(Action::WorkspaceGone);
    }
    for (number, run) in s.service.runs.iter().enumerate().filter(|(_, r)| r.live()) {
        if run.state() == RunState::Cancelling {
            actions.push(Action::Run(number, RunState::Cancelled));
        }
        if left.runs > 0 {
            actions.push(Action::Run(number, RunState::Succeeded));
            if m.scenario.ends {
                actions.push(Action::Run(number, RunState::Failed));
                actions.push(Action::Run(number, RunState::Cancelled));
            }
            if m.scenario.loses {
                actions.push(Action::LoseRun(number));
            }
        }
    }
    for pause in [Pause::Moment, Pause::Minute, Pause::Patience, Pause::Day] {
        if *pause.left(&mut { left }) > 0 {
            actions.push(Action::Tick(pause));
        }
    }
}

fn processes(s: &State, actions: &mut Vec<Action>) {
    let up = s.procs.iter().flatten().count();
    for (slot, proc) in s.procs.iter().enumerate() {
        let Some(proc) = proc else {
            // A lease is taken over while its holder still acts as the leader.
            let first_free = s.procs.iter().position(Option::is_none) == Some(slot);
            if first_free && (up == 0 || s.left.leases > 0) {
                actions.push(Action::Start { slot });
            }
            continue;
        };
        for entry in proc
            .entries
            .iter()
            .filter(|e| e.wake == Wake::Now && !e.calling())
        {
            let uid = entry.uid;
            actions.push(Action::Step {
                slot,
                uid,
                fate: Fate::Done,
            });
            if s.left.writes > 0 {
                actions.push(Action::Step {
                    slot,
                    uid,
                    fate: Fate::Unheard,
                });
                actions.push(Action::Step {
                    slot,
                    uid,
                    fate: Fate::Late,
                });
            }
        }
        for entry in proc
            .entries
            .iter()
            .filter(|e| e.streaming && s.left.events > 0)
        {
            let uid = entry.uid;
            actions.push(Action::Event {
                slot,
                uid,
                replay: false,
            });
            actions.push(Action::Event {
                slot,
                uid,
                replay: true,
            });
        }
        for name in 0..2 {
            let shown = proc.shown(name);
            if shown != s.live[name].as_ref() {
                actions.push(Action::Watch { slot, name });
            } else if shown.is_some() && s.left.lists > 0 {
                actions.push(Action::Lack { slot, name });
            }
        }
        actions.push(Action::Verify { slot });
        match proc.place {
            Some(Place::Free) if s.left.busy > 0 => actions.push(Action::Taken { slot }),
            Some(Place::Other) => actions.push(Action::Freed { slot }),
            _ => {}
        }
        if s.left.crashes > 0 {
            actions.push(Action::Crash { slot });
        }
    }
}

fn requests(m: &Model, s: &State, actions: &mut Vec<Action>) {
    let creates = s
        .calls
        .iter()
        .filter(|c| matches!(c.call, Call::Create { .. }))
        .count();
    for (i, packet) in s.calls.iter().enumerate() {
        if i > 0 && s.calls[i - 1] == *packet {
            continue;
        }
        actions.push(Action::Serve(i));
        let create = matches!(packet.call, Call::Create { .. });
        if create && creates > 1 && !packet.begun && !service::taken(s, packet) {
            actions.push(Action::Begin(i));
        }
        if packet.caller.is_none() {
            continue;
        }
        if s.left.calls > 0 {
            if m.scenario.network {
                actions.extend([Action::Unheard(i), Action::Late(i)]);
                if !packet.begun {
                    actions.push(Action::Lost(i));
                    if create {
                        actions.push(Action::Double(i));
                    }
                }
            }
            let fits = |a: &&Answer| match a {
                // A request that is in progress is no longer refused. Nor is one of two copies of a request:
                // a refusal means that this request made no run.
                a if (packet.begun || packet.doubled) && !a.done() => false,
                Answer::NotFound => !create,
                Answer::Anonymous | Answer::GivenUp => create,
                Answer::Ignored => matches!(packet.call, Call::Cancel(_)),
                Answer::OtherRun => matches!(packet.call, Call::Get(_)),
                Answer::Approval => !matches!(packet.call, Call::Get(_)),
                _ => true,
            };
            let answers = m.scenario.answers.iter().filter(fits);
            actions.extend(answers.map(|a| Action::Answered(i, *a)));
        }
    }
}
