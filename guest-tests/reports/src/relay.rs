//! The host's end of the dialogue: hears the scripts, passes on what they ask the card.

use std::path::Path;

use control::{Client, ClientError, Faults, Request};
use serde_json::{Value, json};

use crate::catalogue::Report;
use crate::judge::Seen;
use crate::talk::{Message, Reply};

/// What has been heard in one boot.
pub(crate) struct Relay<'a> {
    reports: Vec<&'a Report>,
    card: Client,
    /// The kernel's release.
    pub(crate) kernel: String,
    /// The report that runs, and what was seen of it.
    pub(crate) running: Option<(&'a Report, Seen)>,
    /// Reports that are over.
    pub(crate) over: Vec<(&'a Report, Seen)>,
    /// The guest is of no use any more, not even for an orderly end.
    pub(crate) spoiled: bool,
    /// The scripts have said that nothing comes any more.
    pub(crate) ended: bool,
    /// What is wrong with the run.
    pub(crate) problems: Vec<String>,
}

impl<'a> Relay<'a> {
    pub(crate) fn new(reports: Vec<&'a Report>, control: &Path) -> Result<Self, ClientError> {
        Ok(Self {
            reports,
            card: Client::connect(control)?,
            kernel: String::new(),
            running: None,
            over: Vec::new(),
            spoiled: false,
            ended: false,
            problems: Vec::new(),
        })
    }

    /// Hears a line; the answer to it.
    pub(crate) fn hear(&mut self, message: Message) -> Reply {
        match self.act(message) {
            Ok(value) => Reply::Ok(value),
            Err(why) => Reply::Error(why),
        }
    }

    fn act(&mut self, message: Message) -> Result<Value, String> {
        match message {
            Message::Hello { kernel } => self.kernel = kernel,
            Message::Begin { report } => self.begin(&report)?,
            Message::Ask { request } => {
                return self.card.ask_json(request).map_err(|error| error.to_string());
            }
            Message::Arm { rules, r#where } => self.arm(&rules, &r#where)?,
            Message::Disarm {} => self.disarm()?,
            Message::Row { promise, kept, seen } => self.seen()?.rows.push((promise, kept, seen)),
            Message::Without { promise, why } => self.seen()?.without.push((promise, why)),
            Message::Done { trouble, log, seconds, spoiled } => {
                if let Err(why) = self.disarm() {
                    self.seen()?.problems.push(why);
                }
                let (report, seen) = self.running.take().ok_or("no report has begun")?;
                self.over.push((report, Seen { trouble, log, seconds, ..seen }));
                self.spoiled |= spoiled;
                return Ok(json!({ "go_on": !spoiled }));
            }
            Message::End {} => self.ended = true,
        }
        Ok(Value::Null)
    }

    fn begin(&mut self, name: &str) -> Result<(), String> {
        let known = self.reports.iter().find(|report| report.name == name);
        let report = known.ok_or_else(|| format!("nobody asked for report {name}"))?;
        self.running = Some((report, Seen::default()));
        Ok(())
    }

    fn seen(&mut self) -> Result<&mut Seen, String> {
        self.running.as_mut().map(|(_, seen)| seen).ok_or_else(|| "no report has begun".to_owned())
    }

    fn arm(
        &mut self,
        names: &[String],
        more: &std::collections::BTreeMap<String, Value>,
    ) -> Result<(), String> {
        let report =
            self.running.as_ref().map(|(report, _)| *report).ok_or("no report has begun")?;
        for name in names {
            let rule = report.plan.iter().find(|rule| rule.name == *name);
            let rule = rule.ok_or_else(|| format!("plan.toml has no rule \"{name}\""))?;
            let mut rule = serde_json::to_value(rule).map_err(|error| error.to_string())?;
            if !more.is_empty() {
                let object = rule.as_object_mut().ok_or("a rule is no table")?;
                let chosen = object.entry("where").or_insert_with(|| json!({}));
                let chosen = chosen.as_object_mut().ok_or("where is no table")?;
                chosen.extend(more.clone());
            }
            let _: Faults = self.ask(Request::FaultAdd { rule })?;
        }
        Ok(())
    }

    /// Forgets all rules. A report whose rules did not fire has shown nothing.
    fn disarm(&mut self) -> Result<(), String> {
        let faults: Faults = self.ask(Request::FaultList {})?;
        let missed = faults.rules.iter().filter(|rule| rule.must_fire && rule.fired == 0);
        let missed: Vec<String> =
            missed.map(|rule| format!("rule \"{}\" must fire and never did", rule.name)).collect();
        if let Ok(seen) = self.seen() {
            seen.problems.extend(missed);
        }
        let _: Faults = self.ask(Request::FaultClear { name: None })?;
        Ok(())
    }

    fn ask<T: serde::de::DeserializeOwned>(&mut self, request: Request) -> Result<T, String> {
        self.card.ask(request).map_err(|error| format!("the card: {error}"))
    }
}
