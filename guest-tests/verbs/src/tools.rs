//! The table of tools (`tools.toml`): what is run, and what makes it good.

use serde::{Deserialize, Serialize};

use crate::talk::{Program, ToolResult};

/// The table.
pub const TOOLS: &str = include_str!("../tools.toml");

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    limit: u32,
    tool: Vec<Tool>,
}

/// A row: one of `pair`, `alone` and `watch`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tool {
    /// What people call it.
    pub name: String,
    /// A command that is run as a server, and as a client with `localhost` behind it.
    pair: Option<String>,
    /// A command that is run once.
    alone: Option<String>,
    /// A command that runs until it is stopped; once it has said `until`, the shell runs `meanwhile`; it
    /// is good when it then says `then`.
    watch: Option<String>,
    until: Option<String>,
    meanwhile: Option<String>,
    then: Option<String>,
    /// The last program must say each of these.
    #[serde(default)]
    expect: Vec<String>,
    /// The last program must show a row for each power of two from the first to the second, in bytes.
    sizes: Option<[u64; 2]>,
    /// Seconds that it may take.
    limit: Option<u32>,
}

/// What the guest is told of a tool.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(crate) enum Order<'a> {
    Pair {
        name: &'a str,
        limit: u32,
        pair: String,
    },
    Alone {
        name: &'a str,
        limit: u32,
        alone: String,
    },
    Watch {
        name: &'a str,
        limit: u32,
        watch: String,
        until: &'a str,
        meanwhile: &'a str,
        then: &'a str,
    },
}

/// Reads the table, with this device's name in its commands.
pub fn parse(text: &str) -> Result<Vec<Tool>, String> {
    let table: Table = toml::from_str(text).map_err(|error| error.to_string())?;
    let mut tools = table.tool;
    for (at, tool) in tools.iter_mut().enumerate() {
        tool.limit.get_or_insert(table.limit);
        if tool.order("").is_none() {
            return Err(format!(
                "tool {at}, {}: one of pair, alone, watch with its three",
                tool.name
            ));
        }
    }
    let mut names: Vec<&str> = tools.iter().map(|tool| tool.name.as_str()).collect();
    names.sort_unstable();
    match names.windows(2).find(|two| two.first() == two.last()) {
        Some(two) => Err(format!("{two:?}: the name is there twice")),
        None => Ok(tools),
    }
}

/// A tool that is not in the table.
pub(crate) fn pair(name: &str, command: &str, limit: u32) -> Tool {
    Tool {
        name: name.to_owned(),
        pair: Some(command.to_owned()),
        alone: None,
        watch: None,
        until: None,
        meanwhile: None,
        then: None,
        expect: Vec::new(),
        sizes: None,
        limit: Some(limit),
    }
}

impl Tool {
    /// What the guest shall do, on this device.
    pub(crate) fn order(&self, device: &str) -> Option<Order<'_>> {
        let Self { name, pair, alone, watch, until, meanwhile, then, limit, .. } = self;
        let limit = limit.unwrap_or_default();
        let command = |text: &str| text.replace("{device}", device);
        match (pair, alone, watch, until, meanwhile, then) {
            (Some(pair), None, None, None, None, None) => {
                Some(Order::Pair { name, limit, pair: command(pair) })
            }
            (None, Some(alone), None, None, None, None) => {
                Some(Order::Alone { name, limit, alone: command(alone) })
            }
            (None, None, Some(watch), Some(until), Some(meanwhile), Some(then)) => {
                Some(Order::Watch { name, limit, watch: command(watch), until, meanwhile, then })
            }
            _ => None,
        }
    }

    /// Whether what came of it is good, or why not.
    pub fn judge(&self, result: &ToolResult) -> Result<(), String> {
        if let Some(waiting) = &result.waiting {
            return Err(format!("waited {:.0} s for {waiting}", result.seconds));
        }
        let programs = &result.programs;
        if let Some(Program { command, status: Some(status), .. }) =
            programs.iter().find(|program| program.status.is_some_and(|status| status != 0))
        {
            return Err(format!("status {status} of {command}"));
        }
        let (server, last) = match (programs.as_slice(), self.watch.is_some(), self.pair.is_some())
        {
            ([watched, other], true, false) => (other, watched),
            ([server, client], false, true) => (server, client),
            ([one], false, false) => (one, one),
            _ => return Err(format!("{} programs ran", programs.len())),
        };
        // What is watched is stopped; if it ended before, it broke.
        let ended = (server.status.is_some(), last.status.is_none() == self.watch.is_some());
        if ended != (true, true) {
            return Err("one ended, or did not, against expectation".to_owned());
        }
        let expected = self.expect.iter().chain(&self.then);
        if let Some(text) = expected.into_iter().find(|text| !last.output.contains(*text)) {
            return Err(format!("{} did not say {text:?}", last.command));
        }
        let missing = self.expected_sizes().find(|&size| !has_row(last, size));
        missing.map_or(Ok(()), |size| Err(format!("{} has no row for {size} bytes", last.command)))
    }

    fn expected_sizes(&self) -> impl Iterator<Item = u64> {
        let [first, last] = self.sizes.unwrap_or([1, 0]);
        std::iter::successors(Some(first), |size| size.checked_mul(2))
            .take_while(move |&size| size <= last)
    }
}

/// A row of perftest: the size, the number of iterations, and at least two numbers. (They may be 0.00:
/// few small messages on a slow machine.)
fn has_row(program: &Program, size: u64) -> bool {
    program.output.lines().any(|line| {
        let mut words = line.split_whitespace();
        let mut next = || words.next().and_then(|word| word.parse::<f64>().ok());
        #[expect(clippy::cast_precision_loss, reason = "sizes are small powers of two")]
        let same = next() == Some(size as f64);
        same && next().is_some_and(|count| count >= 1.0)
            && next().is_some_and(f64::is_finite)
            && next().is_some_and(f64::is_finite)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: &str = r#"
limit = 60
[[tool]]
name = "pair"
pair = "tool -d {device}"
expect = ["done"]
sizes = [2, 8]
[[tool]]
name = "alone"
alone = "tool"
limit = 5
[[tool]]
name = "watch"
watch = "tool"
until = "ready"
meanwhile = "true"
then = "event"
"#;

    fn program(status: Option<i32>, output: &str) -> Program {
        Program { command: "tool".to_owned(), status, output: output.to_owned() }
    }

    fn judge(name: &str, programs: &[Program], waiting: Option<&str>) -> Result<(), String> {
        let tools = parse(SMALL).unwrap();
        let tool = tools.iter().find(|tool| tool.name == name).unwrap();
        let waiting = waiting.map(str::to_owned);
        tool.judge(&ToolResult {
            name: name.to_owned(),
            programs: programs.to_vec(),
            waiting,
            seconds: 1.0,
        })
    }

    const ROWS: &str = "#bytes\n 2 100 1.5 1\n 4 100 1.5 1\n 8 100 0.00 0\ndone\n";

    #[test]
    fn the_table_is_good() {
        let tools = parse(TOOLS).unwrap();
        assert!(tools.len() > 50);
        for tool in tools.iter().filter(|tool| tool.watch.is_none()) {
            assert!(tool.pair.is_some() || !tool.expect.is_empty(), "{} can't fail", tool.name);
        }
    }

    #[test]
    fn a_pair_must_end_well_and_show_every_size() {
        let good = || program(Some(0), ROWS);
        assert_eq!(judge("pair", &[good(), good()], None), Ok(()));
        let bad = [
            vec![good()],
            vec![good(), program(Some(1), ROWS)],
            vec![program(Some(-11), ""), good()],
            vec![program(None, ""), good()],
            vec![good(), program(Some(0), &ROWS.replace("done", ""))],
            vec![good(), program(Some(0), &ROWS.replace(" 4 100 1.5 1\n", ""))],
            vec![good(), program(Some(0), &ROWS.replace(" 4 100 1.5 1\n", " 4 0 1.5 1\n"))],
            vec![good(), program(Some(0), &ROWS.replace(" 4 100 1.5 1\n", " 4 100 1.5 nan\n"))],
        ];
        for programs in bad {
            assert!(judge("pair", &programs, None).is_err(), "{programs:?}");
        }
        assert!(judge("pair", &[good(), good()], Some("the server to end")).is_err());
    }

    #[test]
    fn the_program_that_failed_by_itself_is_named() {
        let programs = [program(None, ""), program(Some(3), "")];
        assert_eq!(judge("pair", &programs, None), Err("status 3 of tool".to_owned()));
    }

    #[test]
    fn what_is_watched_goes_on_until_it_is_stopped() {
        let shell = || program(Some(0), "");
        assert_eq!(judge("watch", &[program(None, "ready event"), shell()], None), Ok(()));
        let ended = [program(Some(0), "ready event"), shell()];
        let silent = [program(None, "ready"), shell()];
        let without_shell = [program(None, "ready event"), program(Some(1), "")];
        for programs in [ended, silent, without_shell] {
            assert!(judge("watch", &programs, None).is_err(), "{programs:?}");
        }
    }

    #[test]
    fn mistakes_in_a_table_are_told() {
        for bad in [
            "limit = 1\n[[tool]]\nname = \"a\"",
            "limit = 1\n[[tool]]\nname = \"a\"\npair = \"a\"\nalone = \"a\"",
            "limit = 1\n[[tool]]\nname = \"a\"\nwatch = \"a\"",
            "limit = 1\n[[tool]]\nname = \"a\"\nalone = \"a\"\n[[tool]]\nname = \"a\"\nalone = \"b\"",
            "limit = 1\n[[tool]]\nname = \"a\"\nalone = \"a\"\nstrange = 1",
        ] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn the_device_is_named_in_commands() {
        let tools = parse(SMALL).unwrap();
        let orders: Vec<_> = tools.iter().filter_map(|tool| tool.order("rxe0")).collect();
        let text = serde_json::to_string(&orders).unwrap();
        assert!(text.starts_with(r#"[{"name":"pair","limit":60,"pair":"tool -d rxe0"}"#), "{text}");
        assert!(text.contains(r#"{"name":"alone","limit":5,"alone":"tool"}"#), "{text}");
    }
}
