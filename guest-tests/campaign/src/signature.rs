//! The kernel's report of damage in a line: the same damage has the same words on every kernel.

use qemu_config::Damage;

/// What a report says, without what differs from run to run (processes, addresses, seconds) and from
/// kernel to kernel (line numbers, offsets): `WARNING in refcount_warn_saturate (lib/refcount.c) under
/// cmd_ent_put`. `lines` is the whole report, `damage` its telling line.
pub(crate) fn of(lines: &[String], damage: &Damage) -> String {
    let message = damage.message.as_str();
    let driver = in_driver(lines);
    if let Some((task, _)) = message.split_once(" blocked for more than ") {
        let task = task.trim_start_matches("INFO: task ");
        let task = task.rsplit_once(':').map_or(task, |(name, _)| name);
        return hang(task, driver);
    }
    let (mut what, place) = match warning(message) {
        Some((function, file)) => (format!("WARNING in {function} ({file})"), function),
        None => {
            let place = instruction(lines).unwrap_or_default();
            let text = without_values(message);
            (if place.is_empty() { text } else { format!("{text} in {place}") }, place)
        }
    };
    if let Some(driver) = driver.filter(|driver| *driver != place) {
        what = format!("{what} under {driver}");
    }
    what
}

/// A process that hangs.
pub(crate) fn hang(task: &str, function: Option<&str>) -> String {
    // A worker's number is another each time.
    let task = if task.starts_with("kworker/") { "kworker" } else { task };
    let place = function.map_or_else(String::new, |function| format!(" in {function}"));
    format!("{task} hangs{place}")
}

/// The function of `name+0x12/0x34` in a line.
pub(crate) fn function(line: &str) -> Option<&str> {
    line.split_whitespace().find_map(|word| word.split_once("+0x")).map(|(name, _)| name)
}

/// Function and file of a WARN, in the older words (`WARNING: CPU: 1 PID: 7 at x.c:3 f+0x1/0x2 [m]`) or
/// the newer (`WARNING: x.c:3 at f+0x1/0x2 [m], CPU#1: sh/7`).
fn warning(message: &str) -> Option<(&str, &str)> {
    let words = || message.strip_prefix("WARNING: ").into_iter().flat_map(str::split_whitespace);
    let file = words().find_map(|word| {
        let (file, line) = word.rsplit_once(':')?;
        let is_place = file.contains('.') && line.chars().all(|c| c.is_ascii_digit());
        (is_place && !line.is_empty()).then_some(file)
    })?;
    function(message).map(|function| (function, file))
}

/// Where the processor was.
fn instruction(lines: &[String]) -> Option<&str> {
    let line = lines.iter().find(|line| line.contains("RIP: 0010:"))?;
    function(line).map(|function| function.trim_start_matches("0010:"))
}

/// The function of a module that is nearest to the damage; `?` stands before what may be left over.
fn in_driver(lines: &[String]) -> Option<&str> {
    let trace = lines.iter().skip_while(|line| !line.contains("Call Trace:")).skip(1);
    let mut own = trace.filter(|line| line.trim_end().ends_with(']') && !line.contains(" ? "));
    own.find_map(|line| function(line))
}

/// Words that are no numbers.
fn without_values(message: &str) -> String {
    let words = message.split_whitespace().filter(|word| {
        let bare = word.trim_matches(|c: char| !c.is_ascii_alphanumeric());
        let number = bare.trim_start_matches("0x");
        bare.is_empty()
            || !(bare.starts_with("0x") || number.len() >= 4)
            || !number.chars().all(|c| c.is_ascii_hexdigit())
    });
    let text = words.collect::<Vec<_>>().join(" ");
    text.trim_end_matches(", address:").trim_end_matches([',', ':', ' ']).to_owned()
}

#[cfg(test)]
mod tests {
    use qemu_config::Severity;

    use super::*;

    fn signature(lines: &[&str]) -> String {
        let lines: Vec<String> = lines.iter().map(|line| (*line).to_owned()).collect();
        of(&lines, &Damage { message: lines[0].clone(), severity: Severity::Report })
    }

    #[test]
    fn a_warning_is_the_same_on_older_and_newer_kernels() {
        let trace = ["Call Trace:", " ? x+0x1/0x2 [mlx5_core]", " cmd_ent_put+0x1/0x2 [mlx5_core]"];
        for first in [
            "WARNING: CPU: 1 PID: 77 at lib/refcount.c:28 refcount_warn_saturate+0xbe/0x110",
            "WARNING: lib/refcount.c:28 at refcount_warn_saturate+0x59/0x90, CPU#1: regmr/77",
        ] {
            assert_eq!(
                signature(&[&[first][..], &trace].concat()),
                "WARNING in refcount_warn_saturate (lib/refcount.c) under cmd_ent_put"
            );
        }
        let own = "WARNING: CPU: 1 PID: 77 at drivers/umr.c:333 post_wait+0x1/0x20 [mlx5_ib]";
        let trace = ["Call Trace:", " post_wait+0x1/0x20 [mlx5_ib]"];
        let words = "WARNING in post_wait (drivers/umr.c)";
        assert_eq!(signature(&[&[own][..], &trace].concat()), words);
    }

    #[test]
    fn a_task_hangs_somewhere() {
        let lines = [
            "INFO: task sh:209 blocked for more than 20 seconds.",
            "Call Trace:",
            " schedule+0x27/0xc0",
            " down+0x47/0x60",
            " mlx5_cmd_allowed_opcode+0x33/0x90 [mlx5_core]",
            " destroy_async_eqs+0x44/0xc0 [mlx5_core]",
        ];
        assert_eq!(signature(&lines), "sh hangs in mlx5_cmd_allowed_opcode");
        let worker = "INFO: task kworker/u8:3:41 blocked for more than 9 seconds.";
        assert_eq!(signature(&[worker]), "kworker hangs");
    }

    #[test]
    fn an_oops_is_where_the_processor_was() {
        let lines = [
            "BUG: kernel NULL pointer dereference, address: 0000000000000008",
            "RIP: 0010:process_one_work+0xba/0x340",
            "Call Trace:",
            " worker_thread+0x191/0x2f0",
        ];
        assert_eq!(signature(&lines), "BUG: kernel NULL pointer dereference in process_one_work");
        let panic = "Kernel panic - not syncing: Fatal exception in interrupt";
        assert_eq!(signature(&[panic]), panic);
    }
}
