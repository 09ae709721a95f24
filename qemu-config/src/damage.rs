//! What counts as damage in a guest's console.

/// How a message that means damage looks.
#[derive(Debug, Clone, Copy)]
enum Look {
    /// It begins so.
    Begins(&'static str),
    /// This is somewhere in it.
    Has(&'static str),
    /// It begins with the first and has the second.
    Both(&'static str, &'static str),
}

/// Whether a guest can go on after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Severity {
    /// The kernel reported it and goes on.
    Report,
    /// Something in the kernel has ended or hangs: COMMAND may never end.
    Fatal,
}
use Severity::{Fatal, Report};

/// Compared with what follows time stamp and caller. Order counts: the first that fits names the
/// damage.
const PATTERNS: &[(Look, Severity)] = &[
    (Look::Begins("Kernel panic - not syncing"), Fatal),
    (Look::Begins("BUG: KASAN:"), Report),
    (Look::Begins("BUG: KFENCE:"), Report),
    (Look::Begins("BUG: KCSAN:"), Report),
    (Look::Begins("BUG: KMSAN:"), Report),
    (Look::Begins("BUG: sleeping function called"), Report),
    (Look::Begins("BUG: workqueue lockup"), Fatal),
    (Look::Begins("BUG: "), Fatal),
    (Look::Begins("kernel BUG at "), Fatal),
    (Look::Has("watchdog: BUG: soft lockup"), Fatal),
    (Look::Has("Watchdog detected hard LOCKUP"), Fatal),
    (Look::Begins("Oops: "), Fatal),
    (Look::Begins("general protection fault, "), Fatal),
    (Look::Begins("double fault: "), Fatal),
    (Look::Begins("stack segment: "), Fatal),
    (Look::Begins("invalid opcode: "), Fatal),
    (Look::Begins("divide error: "), Fatal),
    (Look::Both("INFO: task ", " blocked for more than "), Fatal),
    (Look::Both("rcu: INFO: ", "detected stall"), Fatal),
    (Look::Both("rcu: INFO: ", "detected expedited stall"), Fatal),
    // lockdep, by the first line of each of its reports
    (Look::Begins("WARNING: possible "), Report),
    (Look::Begins("WARNING: bad unlock balance"), Report),
    (Look::Begins("WARNING: inconsistent lock state"), Report),
    (Look::Begins("WARNING: suspicious RCU usage"), Report),
    (Look::Begins("WARNING: held lock freed"), Report),
    (Look::Begins("WARNING: lock held when returning"), Report),
    (Look::Begins("WARNING: Nested lock was not taken"), Report),
    (Look::Both("WARNING: ", "irq lock inversion"), Report),
    (Look::Begins("INFO: possible "), Report),
    (Look::Begins("INFO: trying to register non-static key"), Report),
    // WARN(), in its older and its newer words
    (Look::Begins("WARNING: CPU: "), Report),
    (Look::Both("WARNING: ", ", CPU#"), Report),
    (Look::Begins("UBSAN: "), Report),
    (Look::Begins("list_add corruption"), Report),
    (Look::Begins("list_del corruption"), Report),
    (Look::Begins("refcount_t: "), Report),
    (Look::Both("kmemleak: ", "new suspected memory leaks"), Report),
    // Every WARN and BUG is introduced by it: for words that no line above knows.
    (Look::Begins("------------[ cut here ]"), Report),
];

/// Something that a stock kernel says although neither the card nor COMMAND did anything wrong.
#[derive(Debug, Clone, Copy)]
struct Allowed {
    /// Beginning of the kernel's release.
    release: &'static str,
    /// Text in the message.
    has: &'static str,
    /// Why it is no damage.
    why: &'static str,
}

/// None is known: stock 6.1, 6.12 and 7.3 boot and shut down without a line that fits.
const ALLOWED: &[Allowed] = &[];

/// One piece of damage.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    /// The message, without time stamp.
    pub message: String,
    /// Whether COMMAND may never end.
    pub severity: Severity,
}

/// Judges one line of the console of a kernel with this release.
pub fn judge(line: &str, release: &str) -> Option<Damage> {
    judge_by(line, release, ALLOWED)
}

fn judge_by(line: &str, release: &str, allowed: &[Allowed]) -> Option<Damage> {
    let message = self::message(line);
    let severity = PATTERNS.iter().find(|(look, _)| fits(*look, message)).map(|(_, s)| *s)?;
    let excused = |a: &Allowed| release.starts_with(a.release) && message.contains(a.has);
    if let Some(Allowed { why, .. }) = allowed.iter().find(|a| excused(a)) {
        log::debug!("not damage ({why}): {message}");
        return None;
    }
    Some(Damage { message: message.trim_end().to_owned(), severity })
}

fn fits(look: Look, message: &str) -> bool {
    match look {
        Look::Begins(text) => message.starts_with(text),
        Look::Has(text) => message.contains(text),
        Look::Both(first, second) => message.starts_with(first) && message.contains(second),
    }
}

/// A line of the console without `[    1.234567]` and, where CONFIG_PRINTK_CALLER is set, `[   T12]`.
pub fn message(line: &str) -> &str {
    let mut rest = line.trim_start_matches(['\r', ' ']);
    for _ in 0..2 {
        let Some((inside, after)) = rest.strip_prefix('[').and_then(|r| r.split_once(']')) else {
            break;
        };
        let stamp = inside.trim_start_matches([' ', 'T', 'C']);
        if stamp.is_empty() || !stamp.bytes().all(|b| b.is_ascii_digit() || b == b'.') {
            break;
        }
        rest = after.trim_start();
    }
    rest
}

/// Judges a console that grows.
#[derive(Debug, Default)]
pub(crate) struct Scanner {
    unfinished: Vec<u8>,
    /// What was found, in order, each message once.
    pub(crate) found: Vec<Damage>,
}

impl Scanner {
    /// Takes the next bytes; returns what is new in them.
    pub(crate) fn take(&mut self, bytes: &[u8], release: &str) -> Vec<Damage> {
        let mut new = Vec::new();
        self.unfinished.extend_from_slice(bytes);
        while let Some(end) = self.unfinished.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.unfinished.drain(..=end).collect();
            if let Some(damage) = judge(&String::from_utf8_lossy(&line), release)
                && !self.found.contains(&damage)
            {
                self.found.push(damage.clone());
                new.push(damage);
            }
        }
        new
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_of_each_kind() {
        let cases: &[(&str, Option<Severity>)] = &[
            ("[    4.5] Kernel panic - not syncing: Fatal exception", Some(Fatal)),
            ("[    4.5][  T123] BUG: kernel NULL pointer dereference, address: 0", Some(Fatal)),
            (
                "[   24.500012] BUG: KASAN: slab-use-after-free in mlx5_cmd_exec+0x1/0x2",
                Some(Report),
            ),
            ("[ 4.5] watchdog: BUG: soft lockup - CPU#0 stuck for 26s! [a:1]", Some(Fatal)),
            ("kernel BUG at mm/slub.c:3", Some(Fatal)),
            ("[ 1.0] Oops: 0002 [#1] PREEMPT SMP NOPTI", Some(Fatal)),
            ("[ 1.0] general protection fault, probably for non-canonical address 1", Some(Fatal)),
            ("[ 1.0] INFO: task modprobe:99 blocked for more than 120 seconds.", Some(Fatal)),
            ("[ 1.0] rcu: INFO: rcu_preempt detected stalls on CPUs/tasks:", Some(Fatal)),
            ("[ 1.0] rcu: INFO: rcu_sched self-detected stall on CPU", Some(Fatal)),
            ("[ 1.0] WARNING: CPU: 1 PID: 7 at drivers/x.c:3 f+0x1/0x2 [m]", Some(Report)),
            ("[ 1.0] WARNING: drivers/x.c:3 at f+0x1/0x2, CPU#1: modprobe/7", Some(Report)),
            ("[ 1.0] WARNING: possible circular locking dependency detected", Some(Report)),
            ("[ 1.0] WARNING: suspicious RCU usage", Some(Report)),
            ("[ 1.0] UBSAN: array-index-out-of-bounds in x.c:3:4", Some(Report)),
            ("[ 1.0] ------------[ cut here ]------------", Some(Report)),
            ("[ 1.0] kmemleak: 3 new suspected memory leaks (see x)", Some(Report)),
            // not damage
            ("[ 1.0] traps: a.out[99] general protection fault ip:1 sp:2 error:0", None),
            ("[ 1.0] Spectre V2 : WARNING: Unprivileged eBPF is enabled", None),
            ("[ 1.0] PCI: if necessary, use \"pci=nocrs\" and report a bug", None),
            ("[ 1.0] rcu: Hierarchical RCU implementation.", None),
            ("[ 1.0] a.out[9]: segfault at 0 ip 1 sp 2 error 4 in a.out", None),
            ("[ 1.0] Out of memory: Killed process 9 (a.out)", None),
            ("[ 1.0] WARNING: this kernel is old", None),
            ("user text: BUG: not at the beginning", None),
            ("", None),
        ];
        for (line, severity) in cases {
            assert_eq!(judge(line, "6.12.0").map(|d| d.severity), *severity, "{line}");
        }
    }

    #[test]
    fn a_stock_kernel_is_excused_by_release_and_text() {
        let allowed = [Allowed { release: "6.1.", has: "at net/x.c", why: "a test" }];
        let line = "[ 1.0] WARNING: CPU: 1 PID: 7 at net/x.c:3 f+0x1/0x2";
        assert_eq!(judge_by(line, "6.1.0-50-amd64", &allowed), None);
        assert!(judge_by(line, "6.12.0", &allowed).is_some());
        assert!(judge_by("BUG: bad", "6.1.0-50-amd64", &allowed).is_some());
    }

    #[test]
    fn lines_may_arrive_in_pieces_and_repeat() {
        let mut scanner = Scanner::default();
        assert!(scanner.take(b"[ 1.0] kernel BU", "6.12").is_empty());
        assert_eq!(scanner.take(b"G at x.c:1\r\nfine\n[ 2.0] ker", "6.12").len(), 1);
        assert!(scanner.take(b"nel BUG at x.c:1\r\n", "6.12").is_empty());
        assert_eq!(scanner.found.len(), 1);
    }
}
