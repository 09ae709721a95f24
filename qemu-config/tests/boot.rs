//! Boots real guests without a card: what the launcher promises, seen from outside.
//!
//! They need Debian's package registry the first time and a minute each, so they are run by name:
//! `cargo test -p qemu-config --test boot -- --ignored --test-threads 1`

use std::ffi::OsString;
use std::io::{Read as _, Write as _};
use std::time::Duration;

use qemu_config::{
    DAMAGED, Ending, GuestProgram, HIGH_STATUS, Job, Kernel, Options, Outcome, SIGNALLED, Session,
    Stop, Stream, Streams, TIMED_OUT,
};

const PIPED: Streams =
    Streams { stdin: Stream::Piped, stdout: Stream::Piped, stderr: Stream::Piped };

fn command(words: &[&str]) -> Options {
    Options {
        timeout: Some(Duration::from_secs(300)),
        ..Options::new(Job::Command(words.iter().map(OsString::from).collect()))
    }
}

fn shell(script: &str) -> Options {
    command(&["sh", "-c", script])
}

struct Seen {
    outcome: Outcome,
    stdout: Vec<u8>,
    stderr: Vec<u8>,
}

impl Seen {
    fn text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    fn ended_with(&self, status: u8) {
        let Outcome { problems, console, times, .. } = &self.outcome;
        let tail: Vec<&str> = console.lines().rev().take(15).collect();
        let stderr = String::from_utf8_lossy(&self.stderr);
        assert_eq!(self.outcome.status(), status, "{problems:#?} {stderr} {times:?} {tail:#?}");
    }
}

fn run_with(options: Options, input: &[u8]) -> Seen {
    let stop = Stop::new().unwrap();
    let mut session = Session::start(options, PIPED, &stop).unwrap();
    let mut stdin = session.take_stdin().unwrap();
    let (mut stdout, mut stderr) = (session.take_stdout().unwrap(), session.take_stderr().unwrap());
    let (mut out, mut err) = (Vec::new(), Vec::new());
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // A command that does not read its input is no fault of the test.
            let _ = stdin.write_all(input);
            drop(stdin);
        });
        scope.spawn(|| stderr.read_to_end(&mut err).unwrap());
        stdout.read_to_end(&mut out).unwrap();
    });
    Seen { outcome: session.wait(), stdout: out, stderr: err }
}

fn run(options: Options) -> Seen {
    run_with(options, b"")
}

#[test]
#[ignore = "boots a guest"]
fn streams_stay_apart_and_whole() {
    // More than all buffers on the way hold, in both directions at once.
    let input: Vec<u8> =
        (0..5_000_000_u32).map(|n| n.to_le_bytes()[0] ^ n.to_le_bytes()[1]).collect();
    let seen = run_with(shell("echo to stderr >&2; cat; echo; echo bye >&2; exit 7"), &input);
    seen.ended_with(7);
    assert_eq!(seen.stdout.len(), input.len() + 1);
    assert!(seen.stdout.starts_with(&input));
    assert_eq!(seen.stderr, b"to stderr\nbye\n");
    assert!(seen.outcome.damage.is_empty() && seen.outcome.problems.is_empty());
}

#[test]
#[ignore = "boots a guest"]
fn the_argument_vector_arrives_as_it_was() {
    let words = ["printf", "[%s]", "a b", "", "$HOME", "'", "ü\n"];
    let seen = run(command(&words));
    seen.ended_with(0);
    assert_eq!(seen.text(), "[a b][][$HOME]['][ü\n]");
}

#[test]
#[ignore = "boots a guest"]
fn what_users_were_promised_is_there() {
    const PROGRAM: GuestProgram = GuestProgram {
        name: "hello",
        files: &[
            ("say.h", "void say(int n);\n"),
            (
                "say.c",
                "#include \"say.h\"\n#include <stdio.h>\nvoid say(int n) { printf(\"n=%d\\n\", n); }",
            ),
            (
                "main.c",
                "#include \"say.h\"\n#include <infiniband/verbs.h>\n\
                 int main(void) { int n = -1; ibv_get_device_list(&n); say(n); return 0; }",
            ),
        ],
    };
    let share = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    std::fs::write(share[0].path().join("in"), "shared\n").unwrap();
    let script = "set -e
        for p in python3 ibv_devinfo ib_write_bw rping ibstat ip rdma ethtool modprobe; do
            command -v $p >/dev/null || echo no $p; done
        python3 /usr/share/doc/rdma-core/tests/run_tests.py --list-tests | grep -c test_mlx5 >&2
        ls /usr/share/doc/rdma-core/tests/*.gz 2>/dev/null || true
        hello
        cat /mnt/share/in; echo out > /mnt/share2/out
        modprobe -a nvme-rdma ib_iser rds_rdma ib_ipoib rdma_rxe; ping -c1 localhost >/dev/null 2>&1 || true
        id -u; test -e /dev/fd/0; test -e /dev/shm; ls /sys/kernel/debug >/dev/null
        rdma link add rxe0 type rxe netdev lo && ls /sys/class/infiniband /dev/infiniband";
    let mut options = shell(script);
    options.programs = vec![PROGRAM];
    options.shares = share.iter().map(|dir| dir.path().to_owned()).collect();
    let seen = run(options);
    seen.ended_with(0);
    let text = seen.text();
    assert!(
        text.starts_with("n=0\nshared\n0\n"),
        "{text} {}",
        String::from_utf8_lossy(&seen.stderr)
    );
    assert!(text.contains("rxe0") && text.contains("uverbs0"), "{text}");
    let out = std::fs::read_to_string(share[1].path().join("out")).unwrap();
    assert_eq!(out, "out\n");
}

#[test]
#[ignore = "boots a guest"]
fn each_end_has_its_status() {
    let seen = run(shell("kill -SEGV $$"));
    seen.ended_with(SIGNALLED);
    assert_eq!(seen.outcome.problems, ["the command was killed by SIGSEGV"]);

    let seen = run(command(&["no-such-program"]));
    seen.ended_with(HIGH_STATUS);
    assert_eq!(seen.outcome.ending(), Some(Ending::Exited(127)));
    assert!(String::from_utf8_lossy(&seen.stderr).contains("cannot run no-such-program"));

    let seen =
        run(Options { timeout: Some(Duration::from_secs(25)), ..shell("echo hi; sleep 1000") });
    seen.ended_with(TIMED_OUT);
    assert_eq!(seen.text(), "hi\n", "what came before is passed on");
}

#[test]
#[ignore = "boots a guest"]
fn damage_counts_whatever_the_command_returns() {
    let seen = run(shell("echo c > /proc/sysrq-trigger; sleep 1000"));
    seen.ended_with(DAMAGED);
    assert!(seen.outcome.problems.iter().any(|p| p.contains("Kernel panic")), "{:?}", seen.outcome);

    // A WARN's words on the console, and a command that is content.
    let seen = run(shell("echo '<4>WARNING: CPU: 0 PID: 1 at x.c:1 f+0x1/0x2' > /dev/kmsg"));
    seen.ended_with(DAMAGED);
    assert_eq!(seen.outcome.ending(), Some(Ending::Exited(0)));

    let seen = run(shell("echo o > /proc/sysrq-trigger; sleep 1000"));
    seen.ended_with(DAMAGED);
    assert_eq!(seen.outcome.problems, ["the guest went away before the command ended"]);
}

#[test]
#[ignore = "boots a guest"]
fn nobody_waits_for_what_the_command_left_behind() {
    let seen = run(shell("sleep 1000 & echo started"));
    seen.ended_with(0);
    assert_eq!(seen.text(), "started\n");
}

#[test]
#[ignore = "boots a guest"]
fn a_reader_that_leaves_ends_the_writer() {
    let stop = Stop::new().unwrap();
    let streams = Streams { stdin: Stream::Null, stdout: Stream::Piped, stderr: Stream::Null };
    let mut session = Session::start(command(&["yes"]), streams, &stop).unwrap();
    let mut first = [0; 4];
    session.take_stdout().unwrap().read_exact(&mut first).unwrap();
    assert_eq!(&first, b"y\ny\n");
    let outcome = session.wait();
    assert_eq!(outcome.ending(), Some(Ending::Killed(13)), "{:?}", outcome.problems);
}

#[test]
#[ignore = "boots a guest"]
fn a_stop_ends_it_and_leaves_nothing() {
    let stop = Stop::new().unwrap();
    let mut session = Session::start(command(&["cat"]), PIPED, &stop).unwrap();
    let qmp = session.qmp().to_owned();
    let mut stdin = session.take_stdin().unwrap();
    stdin.write_all(b"x").unwrap();
    let mut byte = [0];
    session.take_stdout().unwrap().read_exact(&mut byte).unwrap();
    assert!(qmp.exists());
    stop.request();
    let outcome = session.wait();
    assert!(outcome.facts.interrupted);
    assert_eq!(outcome.status(), SIGNALLED);
    assert!(!qmp.parent().unwrap().exists(), "the run's directory is gone");
}

#[test]
#[ignore = "boots guests with each kernel, which are fetched"]
fn every_kernel_boots() {
    for (kernel, release) in
        [(Kernel::V6_1, "6.1."), (Kernel::V6_12, "6.12."), (Kernel::Latest, "")]
    {
        let seen = run(Options { kernel, ..command(&["uname", "-r"]) });
        seen.ended_with(0);
        assert!(seen.text().starts_with(release), "{}", seen.text());
        assert!(seen.outcome.kernel.contains(seen.text().trim()), "{}", seen.outcome.kernel);
        println!("{} {:?}", seen.text().trim(), seen.outcome.times);
    }
}

#[test]
#[ignore = "boots a guest"]
fn a_qemu_that_cannot_start_says_why() {
    let mut options = command(&["true"]);
    options.qemu_arguments = vec!["-device".to_owned(), "no-such-device".to_owned()];
    let seen = run(options);
    seen.ended_with(qemu_config::CANNOT_START);
    let text = seen.outcome.problems.join("\n");
    assert!(text.contains("QEMU could not start") && text.contains("no-such-device"), "{text}");
}
