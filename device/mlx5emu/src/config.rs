//! The configuration file. `docs/config.md` describes it.

use std::fmt;
use std::path::Path;

use function::{Config, Identity, Limits, Link, Profile};
use serde::de::{self, Deserialize, Deserializer, Visitor};
use toml::Spanned;
use trace::{Filter, Level};

/// What the command line says about the card. It beats the file.
#[derive(Debug, Default, clap::Args)]
pub struct CardOptions {
    /// The card: connectx-6
    #[arg(long, value_name = "NAME")]
    pub profile: Option<String>,
    /// What its port is connected to: ib
    #[arg(long, value_name = "LINK")]
    pub link: Option<String>,
    /// Read the card's configuration from a TOML file
    #[arg(long, value_name = "FILE")]
    pub config: Option<std::path::PathBuf>,
    /// Let go wrong what the rules in a TOML file say
    #[arg(long, value_name = "FILE")]
    pub faults: Option<std::path::PathBuf>,
    /// Tell the driver to wait seconds where it would wait minutes
    #[arg(long)]
    pub fast_timeouts: bool,
}

impl CardOptions {
    /// The card's configuration. What must differ between cards follows from `seed` unless the file says it.
    /// The error is one line for people.
    pub fn load(&self, seed: &str) -> Result<Config, String> {
        let file = match &self.config {
            None => File::default(),
            Some(path) => File::read(path)?,
        };
        let mut config = file.config(seed).map_err(|(at, message)| {
            let path = self.config.as_deref().unwrap_or(Path::new("configuration"));
            format!("{}:{at}: {message}", path.display())
        })?;
        if let Some(name) = &self.profile {
            config.profile = profile(name)?;
        }
        if let Some(name) = &self.link {
            config.link = link(name)?;
        }
        config.fast_timeouts |= self.fast_timeouts;
        if let Some(path) = &self.faults {
            config.faults.extend(read_faults(path)?);
            // What goes wrong only together is two rules of one name, which neither file shows.
            faults::Faults::new(&config.faults).map_err(|wrong| wrong.to_string())?;
        }
        Ok(config)
    }
}

impl CardOptions {
    /// What the file says about tracing. The error is one line for people.
    pub fn trace(&self) -> Result<TraceTable, String> {
        self.config.as_deref().map_or(Ok(TraceTable::default()), |path| Ok(File::read(path)?.trace))
    }
}

/// Reads a file of fault rules. The error is one line for people.
pub fn read_faults(path: &Path) -> Result<Vec<faults::Rule>, String> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| format!("cannot read {}: {error}", path.display()))?;
    faults::parse(&text).map_err(|(at, message)| format!("{}:{at}: {message}", path.display()))
}

fn profile(name: &str) -> Result<Profile, String> {
    match name {
        "connectx-6" => Ok(Profile::ConnectX6),
        _ => Err(format!("there is no profile \"{name}\" yet, only connectx-6")),
    }
}

fn link(name: &str) -> Result<Link, String> {
    match name {
        "ib" => Ok(Link::InfiniBand),
        _ => Err(format!("there is no link \"{name}\" yet, only ib")),
    }
}

/// The file as it is written. A number is kept with its place, for errors that only show later.
#[derive(Debug, Default, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    profile: ProfileTable,
    #[serde(default)]
    identity: IdentityTable,
    #[serde(default)]
    limits: LimitsTable,
    #[serde(default)]
    timeouts: TimeoutsTable,
    #[serde(default)]
    fault: Vec<faults::Rule>,
    #[serde(default)]
    trace: TraceTable,
    /// Where lines begin, to find the line of a place.
    #[serde(skip)]
    text: String,
}

#[derive(Debug, Default, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct ProfileTable {
    name: Option<Spanned<String>>,
    link: Option<Spanned<String>>,
    umr: Option<bool>,
}

#[derive(Debug, Default, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct IdentityTable {
    node_guid: Option<Guid>,
    port_guid: Option<Guid>,
    system_image_guid: Option<Guid>,
    serial: Option<Guid>,
    lid: Option<Spanned<u16>>,
    mac: Option<Spanned<toml::Value>>,
}

#[derive(Debug, Default, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct LimitsTable {
    mkeys: Option<Spanned<u32>>,
    translation_entries: Option<Spanned<u64>>,
    queues: Option<Spanned<u32>>,
    memory: Option<Spanned<u64>>,
}

#[derive(Debug, Default, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct TimeoutsTable {
    fast: Option<bool>,
}

/// What the file says about tracing. The command line beats it.
#[derive(Debug, Default, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TraceTable {
    /// Where to; without, nothing is traced.
    pub file: Option<std::path::PathBuf>,
    /// How much.
    pub level: Option<Level>,
    /// Only events that match.
    #[serde(default, deserialize_with = "filter")]
    pub filter: Option<Filter>,
}

fn filter<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Filter>, D::Error> {
    let text = String::deserialize(deserializer)?;
    text.parse().map(Some).map_err(de::Error::custom)
}

/// Objects have numbers of 24 bits.
const MOST_OBJECTS: u32 = 0xff_ffff;

/// Most memory for tables, unless the file says otherwise.
const MEMORY: u64 = 1 << 30;

impl File {
    fn read(path: &Path) -> Result<Self, String> {
        let text = std::fs::read_to_string(path)
            .map_err(|error| format!("cannot read {}: {error}", path.display()))?;
        let mut file: Self = toml::from_str(&text).map_err(|error| {
            let at = line_of(&text, error.span().map_or(0, |span| span.start));
            format!("{}:{at}: {}", path.display(), error.message().replace('\n', " "))
        })?;
        file.text = text;
        Ok(file)
    }

    /// Checks the values. An error comes with its line.
    fn config(&self, seed: &str) -> Result<Config, (usize, String)> {
        let at = |place: usize, message: String| (line_of(&self.text, place), message);
        faults::Faults::new(&self.fault)
            .map_err(|wrong| (faults::line_of(&self.text, &wrong), wrong.message))?;
        let mut config = Config { identity: Identity::derived(seed), ..Config::default() };
        config.fast_timeouts = self.timeouts.fast.unwrap_or(false);
        config.faults = self.fault.clone();
        if let Some(name) = &self.profile.name {
            config.profile =
                profile(name.get_ref()).map_err(|message| at(name.span().start, message))?;
        }
        if let Some(name) = &self.profile.link {
            config.link = link(name.get_ref()).map_err(|message| at(name.span().start, message))?;
        }
        if let Some(umr) = self.profile.umr {
            config.umr = umr;
        }
        self.identity.apply(&mut config.identity).map_err(|(place, m)| at(place, m))?;
        self.limits.apply(&mut config.limits).map_err(|(place, m)| at(place, m))?;
        Ok(config)
    }
}

impl IdentityTable {
    fn apply(&self, identity: &mut Identity) -> Result<(), (usize, String)> {
        if let Some(Guid(guid)) = self.node_guid {
            identity.node_guid = guid;
            identity.port_guid = guid;
            identity.system_image_guid = guid;
            identity.serial = guid;
        }
        for (given, field) in [
            (&self.port_guid, &mut identity.port_guid),
            (&self.system_image_guid, &mut identity.system_image_guid),
            (&self.serial, &mut identity.serial),
        ] {
            if let Some(Guid(guid)) = given {
                *field = *guid;
            }
        }
        if let Some(lid) = &self.lid {
            if !(1..=Identity::LAST_LID).contains(lid.get_ref()) {
                let message = format!("lid must be 1 to {:#x}", Identity::LAST_LID);
                return Err((lid.span().start, message));
            }
            identity.lid = *lid.get_ref();
        }
        match &self.mac {
            None => Ok(()),
            Some(mac) => Err((mac.span().start, "mac: an InfiniBand port has none".into())),
        }
    }
}

impl LimitsTable {
    fn apply(&self, limits: &mut Limits) -> Result<(), (usize, String)> {
        let mut place = None;
        for (name, given, field) in [
            ("mkeys", &self.mkeys, &mut limits.mkeys),
            ("queues", &self.queues, &mut limits.queues),
        ] {
            if let Some(given) = given {
                let start = given.span().start;
                if *given.get_ref() > MOST_OBJECTS {
                    return Err((start, format!("{name} must be at most {MOST_OBJECTS}")));
                }
                *field = *given.get_ref();
                place.get_or_insert(start);
            }
        }
        if let Some(entries) = &self.translation_entries {
            limits.translation_entries = *entries.get_ref();
            place.get_or_insert(entries.span().start);
        }
        let memory = self.memory.as_ref().map_or(MEMORY, |memory| *memory.get_ref());
        if let Some(memory) = &self.memory {
            place.get_or_insert(memory.span().start);
        }
        let need = limits.worst_case();
        match place {
            Some(place) if need > memory => Err((
                place,
                format!("these limits can need {need} bytes, and limits.memory is {memory}"),
            )),
            _ => Ok(()),
        }
    }
}

/// Number of the line, from 1, that a byte is in.
fn line_of(text: &str, place: usize) -> usize {
    text.bytes().take(place).filter(|&byte| byte == b'\n').count() + 1
}

/// A GUID: `0x…`, or four groups of four digits as `ibv_devinfo` prints it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Guid(u64);

impl<'de> Deserialize<'de> for Guid {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;

        impl Visitor<'_> for Text {
            type Value = Guid;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string like \"0x0002c903000e0b72\" or \"0002:c903:000e:0b72\"")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Guid, E> {
                let invalid = || E::invalid_value(de::Unexpected::Str(text), &self);
                let digits = match text.strip_prefix("0x") {
                    Some(digits) => digits.to_owned(),
                    None => {
                        let groups: Vec<&str> = text.split(':').collect();
                        if groups.len() != 4 || groups.iter().any(|group| group.len() != 4) {
                            return Err(invalid());
                        }
                        groups.concat()
                    }
                };
                if !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
                    return Err(invalid());
                }
                u64::from_str_radix(&digits, 16).map(Guid).map_err(|_| invalid())
            }
        }

        deserializer.deserialize_str(Text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(text: &str) -> Result<Config, String> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("card.toml");
        std::fs::write(&path, text).unwrap();
        let options = CardOptions { config: Some(path), ..CardOptions::default() };
        options.load("seed").map_err(|error| {
            let (_, rest) = error.rsplit_once("card.toml:").unwrap_or(("", &error));
            assert!(!error.contains('\n'), "more than one line: {error}");
            rest.to_owned()
        })
    }

    #[test]
    fn the_example_is_what_the_document_says() {
        let text = include_str!("../../../docs/config.example.toml");
        let config = load(text).unwrap();
        let guid = 0x0200_0000_0000_0001;
        let identity = Identity {
            node_guid: guid,
            port_guid: guid,
            system_image_guid: guid,
            serial: guid,
            lid: 1,
        };
        assert_eq!(config, Config { identity, ..Config::default() });
        // The document's table of limits has the defaults.
        let document = include_str!("../../../docs/config.md");
        let limits = Limits::default();
        for (name, value) in [
            ("mkeys", u64::from(limits.mkeys)),
            ("translation_entries", limits.translation_entries),
            ("queues", limits.queues.into()),
            ("memory", MEMORY),
        ] {
            assert!(document.contains(&format!("| `{name}` | {value} |")), "{name}: {value}");
        }
        // Every key of the example is in the document, under its table.
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let key = line.split_once(" =").map(|(key, _)| format!("| `{key}` |"));
            let table = line.starts_with('[').then(|| format!("## `{line}`"));
            for wanted in key.into_iter().chain(table) {
                assert!(document.contains(&wanted), "the document lacks {wanted}");
            }
        }
    }

    #[test]
    fn an_empty_file_is_the_default() {
        let derived = Config { identity: Identity::derived("seed"), ..Config::default() };
        assert_eq!(load(""), Ok(derived.clone()));
        assert_eq!(load("[profile]\n[identity]\n[limits]\n[timeouts]\n"), Ok(derived));
    }

    #[test]
    fn what_is_traced_is_in_the_file_too() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("card.toml");
        std::fs::write(&path, "[trace]\nfile = 'x.trace'\nlevel = 'all'\nfilter = 'qpn=3'")
            .unwrap();
        let options = CardOptions { config: Some(path), ..CardOptions::default() };
        let table = options.trace().unwrap();
        assert_eq!(table.file.as_deref(), Some(Path::new("x.trace")));
        assert_eq!(
            (table.level, table.filter.unwrap().to_string()),
            (Some(Level::All), "qpn=3".into())
        );
        let none = CardOptions::default().trace().unwrap();
        assert!(none.file.is_none() && none.level.is_none() && none.filter.is_none());
    }

    #[test]
    fn the_node_guid_is_the_default_of_the_others() {
        let config =
            load("[identity]\nnode_guid = '0x10'\nserial = '0000:0000:0000:0011'").unwrap();
        assert_eq!((config.identity.port_guid, config.identity.system_image_guid), (0x10, 0x10));
        assert_eq!(config.identity.serial, 0x11);
    }

    #[test]
    fn the_command_line_beats_the_file() {
        let options = CardOptions { profile: Some("connectx-7".into()), ..CardOptions::default() };
        let error = options.load("seed").unwrap_err();
        assert_eq!(error, "there is no profile \"connectx-7\" yet, only connectx-6");
        let options = CardOptions { link: Some("eth".into()), ..CardOptions::default() };
        assert_eq!(options.load("seed").unwrap_err(), "there is no link \"eth\" yet, only ib");
    }

    #[test]
    fn errors_name_the_line() {
        for (text, error) in [
            ("\nfoo = 1", "2: unknown field `foo`"),
            ("[profile]\ncard = 'x'", "2: unknown field `card`"),
            ("[profile]\nname = 'connectx-5'", "2: there is no profile \"connectx-5\" yet"),
            ("[profile]\n\nlink = 'eth'", "3: there is no link \"eth\" yet"),
            ("[profile]\numr = 1", "2: invalid type: integer `1`"),
            ("[identity]\nnode_guid = 17", "2: invalid type: integer `17`"),
            ("[identity]\nnode_guid = '17'", "2: invalid value"),
            ("[identity]\nnode_guid = '0x'", "2: invalid value"),
            ("[identity]\nnode_guid = '+x0'", "2: invalid value"),
            ("[identity]\nnode_guid = '0x+1'", "2: invalid value"),
            ("[identity]\nnode_guid = '0x10000000000000000'", "2: invalid value"),
            ("[identity]\nnode_guid = '0002:c903:000e:0b7'", "2: invalid value"),
            ("[identity]\nlid = 0", "2: lid must be 1 to 0xbfff"),
            ("[identity]\nlid = 0xc000", "2: lid must be 1 to 0xbfff"),
            ("[identity]\nlid = 0x10000", "2: invalid value"),
            ("[identity]\nmac = '02:00:00:00:00:01'", "2: mac: an InfiniBand port has none"),
            ("[limits]\nmkeys = 0x1000000", "2: mkeys must be at most 16777215"),
            ("[limits]\nqueues = -1", "2: invalid value"),
            ("[limits]\ntranslation_entries = 1_000_000_000", "2: these limits can need"),
            ("[limits]\nmemory = 1", "2: these limits can need"),
            ("[timeouts]\ncommand = 1", "2: unknown field `command`"),
            ("\n[trace]\nlevel = 'loud'", "3: unknown variant `loud`"),
            ("[trace]\nfilter = 'qpn=='", "2: \"qpn==\" is no filter"),
            ("[trace]\nto = 'x'", "2: unknown field `to`"),
            ("[[fault]]\nname = 'x'", "1: missing field `at`"),
            ("\n[[fault]]\nname = 'x'\nat = 'nowhere'\ndo = 'lose'", "4: there is no point"),
            ("[profile", "1: "),
            ("umr = = 1", "1: "),
        ] {
            let got = load(text).unwrap_err();
            assert!(got.starts_with(error), "{text:?}: {got}");
        }
        let options =
            CardOptions { config: Some("/nowhere/card.toml".into()), ..CardOptions::default() };
        let error = options.load("seed").unwrap_err();
        assert!(error.starts_with("cannot read /nowhere/card.toml: "), "{error}");
    }

    #[test]
    fn more_memory_allows_more_entries() {
        let text = "[limits]\ntranslation_entries = 1_000_000_000\nmemory = 10_000_000_000";
        assert_eq!(load(text).unwrap().limits.translation_entries, 1_000_000_000);
    }
}
