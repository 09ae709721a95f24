//! Events to spans: what was open when something began is what it belongs to.

use std::collections::{BTreeMap, BTreeSet};

use crate::capture::Capture;
use crate::events::{Event, Place, Values, What, library};

/// A stretch of time in which something was done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) place: Place,
    pub(crate) parent: Option<usize>,
    pub(crate) kind: Kind,
    /// The function's, the system call's or the handler's own name.
    pub(crate) name: String,
    /// Ns of the guest's monotonic clock.
    pub(crate) start: i64,
    pub(crate) end: i64,
    /// It had not ended when the trace did.
    pub(crate) open: bool,
    pub(crate) arguments: Values,
    pub(crate) results: Values,
}

/// What a span of the guest is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A function of the verbs library.
    Library,
    /// A system call.
    System,
    /// A function of the kernel.
    Function,
    /// A device's interrupt handler.
    Handler,
    /// The thread waited for something.
    Asleep,
    /// Another thread had the processor.
    Preempted,
}

/// All spans of a guest, and which threads are the command's.
#[derive(Debug, Default)]
pub(crate) struct Spans {
    pub(crate) spans: Vec<Span>,
    pub(crate) threads: BTreeSet<i32>,
    /// Names of threads.
    pub(crate) names: BTreeMap<i32, String>,
}

/// Builds them.
pub(crate) fn spans(capture: &Capture, events: &[Event]) -> Spans {
    let mut builder = Builder {
        spans: Spans { threads: [capture.pid].into(), ..Spans::default() },
        stacks: BTreeMap::new(),
        early: BTreeMap::new(),
        closed: BTreeMap::new(),
    };
    for event in events {
        builder.take(event);
    }
    let last = events.last().map_or(0, |event| event.time);
    for stack in builder.stacks.into_values() {
        for index in stack {
            builder.spans.spans[index].end = last;
        }
    }
    builder.spans
}

struct Builder {
    spans: Spans,
    /// What is open, outermost first.
    stacks: BTreeMap<Place, Vec<usize>>,
    /// Arguments that came before the function's own event.
    early: BTreeMap<Place, (String, Values)>,
    /// What ended last.
    closed: BTreeMap<Place, usize>,
}

impl Builder {
    fn take(&mut self, event: &Event) {
        let &Event { time, place, .. } = event;
        match &event.what {
            What::Enter(name) => {
                let index = self.open(time, place, Kind::Function, name);
                if let Some((_, values)) = self.early.remove(&place).filter(|(own, _)| own == name)
                {
                    self.spans.spans[index].arguments = values;
                }
            }
            What::Leave(name) => self.close(time, place, Kind::Function, Some(name)),
            What::Begin(name, values) if library(name) => {
                let index = self.open(time, place, Kind::Library, name);
                self.spans.spans[index].arguments = values.clone();
            }
            What::End(name, values) if library(name) => {
                if !self.is_open(place, Kind::Library, name) {
                    self.open(time, place, Kind::Library, name);
                }
                self.close(time, place, Kind::Library, Some(name));
                self.result(place, name, values);
            }
            What::Begin(name, values) => match self.top(place) {
                Some(span) if span.name == *name && span.arguments.is_empty() => {
                    span.arguments = values.clone();
                }
                _ => drop(self.early.insert(place, (name.clone(), values.clone()))),
            },
            What::End(name, values) => self.result(place, name, values),
            What::SystemCall(number, arguments) => self.system_call(event, *number, arguments),
            What::SystemReturn(value) => {
                self.close(time, place, Kind::System, None);
                let value = crate::format::Value::Number(*value);
                self.last(place, |span| span.kind == Kind::System, [("ret".into(), value)].into());
            }
            What::Handler(name) => drop(self.open(time, place, Kind::Handler, name)),
            What::HandlerEnd => self.close(time, place, Kind::Handler, None),
            What::Switch { sleeps, next, name } => self.switch(time, place, *sleeps, *next, name),
            What::Fork(child) => {
                if let Place::Task(parent) = place
                    && self.spans.threads.contains(&parent)
                {
                    self.spans.threads.insert(*child);
                }
            }
        }
    }

    fn system_call(&mut self, event: &Event, number: i64, arguments: &[u64]) {
        let Place::Task(pid) = event.place else { return };
        if !self.spans.threads.contains(&pid) || PROBES.contains(&number) {
            return;
        }
        let index = self.open(event.time, event.place, Kind::System, &system_call(number));
        let list = crate::format::Value::Numbers(arguments.to_vec());
        self.spans.spans[index].arguments = [("args".into(), list)].into();
    }

    /// Threads that are in the middle of something, and the command's own, are seen to wait.
    fn switch(&mut self, time: i64, from: Place, sleeps: bool, next: i32, name: &str) {
        self.spans.names.entry(next).or_insert_with(|| name.to_owned());
        let followed = |builder: &Self, place| match place {
            Place::Task(0) => false,
            Place::Task(pid) if builder.spans.threads.contains(&pid) => true,
            _ => builder.stacks.get(&place).is_some_and(|stack| !stack.is_empty()),
        };
        if followed(self, from) {
            let (kind, name) = match sleeps {
                true => (Kind::Asleep, "asleep"),
                false => (Kind::Preempted, "another thread runs"),
            };
            self.open(time, from, kind, name);
        }
        let to = Place::Task(next);
        if let Some(span) = self.top(to)
            && matches!(span.kind, Kind::Asleep | Kind::Preempted)
        {
            let kind = span.kind;
            self.close(time, to, kind, None);
        }
    }

    fn top(&mut self, place: Place) -> Option<&mut Span> {
        let index = *self.stacks.get(&place)?.last()?;
        self.spans.spans.get_mut(index)
    }

    fn is_open(&self, place: Place, kind: Kind, name: &str) -> bool {
        let stack = self.stacks.get(&place).map_or(&[][..], Vec::as_slice);
        let same = |span: &Span| span.kind == kind && span.name == name;
        stack.iter().any(|&index| self.spans.spans.get(index).is_some_and(same))
    }

    fn open(&mut self, time: i64, place: Place, kind: Kind, name: &str) -> usize {
        let stack = self.stacks.entry(place).or_default();
        let index = self.spans.spans.len();
        self.spans.spans.push(Span {
            place,
            parent: stack.last().copied(),
            kind,
            name: name.to_owned(),
            start: time,
            end: time,
            open: true,
            arguments: Values::new(),
            results: Values::new(),
        });
        stack.push(index);
        index
    }

    /// Ends the innermost of this kind, and whatever is open within it: its end was not seen.
    fn close(&mut self, time: i64, place: Place, kind: Kind, name: Option<&str>) {
        let spans = &mut self.spans.spans;
        let stack = self.stacks.entry(place).or_default();
        let same = |&index: &usize| {
            spans
                .get(index)
                .is_some_and(|span| span.kind == kind && name.is_none_or(|name| span.name == name))
        };
        let Some(depth) = stack.iter().rposition(same) else { return };
        for index in stack.drain(depth..) {
            if let Some(span) = spans.get_mut(index) {
                (span.end, span.open) = (time, false);
            }
            self.closed.entry(place).and_modify(|last| *last = index).or_insert(index);
        }
        // The outermost of them is the one that ended.
        if let Some(first) = self.closed.get_mut(&place) {
            let mut index = *first;
            while let Some(span) = spans.get(index)
                && (span.kind != kind || name.is_some_and(|name| span.name != name))
                && let Some(parent) = span.parent
            {
                index = parent;
            }
            *first = index;
        }
    }

    /// A result comes right before or right after the end of its function.
    fn result(&mut self, place: Place, name: &str, values: &Values) {
        if let Some(span) = self.top(place)
            && span.name == name
            && span.results.is_empty()
        {
            span.results = values.clone();
            return;
        }
        self.last(place, |span| span.name == name, values.clone());
    }

    fn last(&mut self, place: Place, is: impl Fn(&Span) -> bool, values: Values) {
        let last = self.closed.get(&place).and_then(|&index| self.spans.spans.get_mut(index));
        if let Some(span) = last.filter(|span| is(span) && span.results.is_empty()) {
            span.results = values;
        }
    }
}

/// System calls that the kernel's probes of programs make on their own.
const PROBES: [i64; 2] = [335, 336];

/// Those that a verbs program makes.
fn system_call(number: i64) -> String {
    let name = match number {
        0 => "read",
        1 => "write",
        2 => "open",
        3 => "close",
        7 => "poll",
        9 => "mmap",
        10 => "mprotect",
        11 => "munmap",
        12 => "brk",
        16 => "ioctl",
        28 => "madvise",
        35 => "nanosleep",
        56 => "clone",
        59 => "execve",
        61 => "wait4",
        202 => "futex",
        230 => "clock_nanosleep",
        231 => "exit_group",
        257 => "openat",
        262 => "newfstatat",
        435 => "clone3",
        _ => return number.to_string(),
    };
    name.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::Value;

    const THREAD: Place = Place::Task(7);

    fn all(list: Vec<(Place, What)>) -> Spans {
        let capture = Capture { pid: 7, ..Capture::default() };
        let list = list.into_iter().zip((10..).step_by(10));
        let list = list.map(|((place, what), time)| Event { time, place, cpu: 0, what });
        spans(&capture, &list.collect::<Vec<_>>())
    }

    fn values(name: &str, number: i64) -> Values {
        [(name.to_owned(), Value::Number(number))].into()
    }

    fn shape(spans: &Spans) -> Vec<(&str, Option<usize>, i64, i64, bool)> {
        let shape = |span| {
            let Span { name, parent, start, end, open, .. }: &Span = span;
            (name.as_str(), *parent, *start, *end, *open)
        };
        spans.spans.iter().map(shape).collect()
    }

    #[test]
    fn calls_nest_and_know_arguments_and_results() {
        let spans = all(vec![
            (THREAD, What::Begin("ibv_reg_mr".into(), values("length", 5))),
            (THREAD, What::SystemCall(16, vec![3])),
            // Arguments may come before their function, and results before or after its end.
            (THREAD, What::Begin("pin".into(), values("pages", 2))),
            (THREAD, What::Enter("pin".into())),
            (THREAD, What::Leave("pin".into())),
            (THREAD, What::End("pin".into(), values("ret", -14))),
            (THREAD, What::SystemReturn(-14)),
            (THREAD, What::End("ibv_reg_mr".into(), values("mr", 0))),
        ]);
        let expected = [
            ("ibv_reg_mr", None, 10, 80, false),
            ("ioctl", Some(0), 20, 70, false),
            ("pin", Some(1), 40, 50, false),
        ];
        assert_eq!(shape(&spans), expected);
        let pin = &spans.spans[2];
        assert_eq!((&pin.arguments, &pin.results), (&values("pages", 2), &values("ret", -14)));
        assert_eq!(spans.spans[0].results, values("mr", 0));
    }

    #[test]
    fn threads_that_wait_are_seen_to() {
        let to = |next, sleeps| What::Switch { sleeps, next, name: "other".into() };
        let spans = all(vec![
            (THREAD, What::Enter("cmd_exec".into())),
            (THREAD, to(0, true)),
            (Place::Interrupt(0), What::Handler("mlx5_async0".into())),
            (Place::Interrupt(0), What::Enter("irq_int_handler".into())),
            (Place::Interrupt(0), What::Leave("irq_int_handler".into())),
            (Place::Interrupt(0), What::HandlerEnd),
            (Place::Task(0), to(7, false)),
            (THREAD, What::Leave("cmd_exec".into())),
        ]);
        let expected = [
            ("cmd_exec", None, 10, 80, false),
            ("asleep", Some(0), 20, 70, false),
            ("mlx5_async0", None, 30, 60, false),
            ("irq_int_handler", Some(2), 40, 50, false),
        ];
        assert_eq!(shape(&spans), expected);
    }

    #[test]
    fn what_was_not_seen_to_end_is_open_or_ends_with_its_caller() {
        let spans = all(vec![
            (THREAD, What::Leave("never began".into())),
            (THREAD, What::Enter("outer".into())),
            (THREAD, What::Enter("inner".into())),
            (THREAD, What::Leave("outer".into())),
            (THREAD, What::Enter("last".into())),
            (THREAD, What::Fork(8)),
        ]);
        let expected = [
            ("outer", None, 20, 40, false),
            ("inner", Some(0), 30, 40, false),
            ("last", None, 50, 60, true),
        ];
        assert_eq!(shape(&spans), expected);
        assert_eq!(spans.threads, [7, 8].into());
    }
}
