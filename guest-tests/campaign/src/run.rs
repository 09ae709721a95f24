//! The campaign itself: a clean run, then case after case.

use std::path::Path;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use qemu_config::{Options, Stop};

use crate::Error;
use crate::agent::Done;
use crate::case::{Case, Choice};
use crate::judge;
use crate::lab::{Broken, Lab, Tables};
use crate::result::{CaseResult, Finding, Kind, reason};
use crate::steps::{self, Steps};
use crate::store::Header;
use crate::workload::{Phase, Workload};

/// A campaign over one workload and one kernel.
#[derive(Debug)]
pub(crate) struct Campaign<'a> {
    pub(crate) workload: &'a Workload,
    /// The guest's, without a job.
    pub(crate) options: &'a Options,
    pub(crate) stop: &'a Stop,
    lab: Option<Lab>,
    /// The guest that comes next, once one was damaged: it boots while another still runs.
    spare: Option<JoinHandle<Result<Lab, Error>>>,
    /// What the card's tables hold after a clean run.
    clean: Tables,
    release: String,
    boots: u64,
}

impl<'a> Campaign<'a> {
    /// Boots a guest and lets it run the workload cleanly, twice: the second time the card is traced.
    pub(crate) fn begin(
        workload: &'a Workload,
        options: &'a Options,
        choice: Choice,
        stop: &'a Stop,
    ) -> Result<(Self, Header), Error> {
        let place = tempfile::tempdir()
            .map_err(|source| Error::File { path: std::env::temp_dir(), source })?;
        let trace = place.path().join("trace");
        let lab = Lab::boot(options, Some(&trace), stop)?;
        let clean = Tables { objects: Vec::new(), pages: 0 };
        let release = lab.release.clone();
        let mut campaign =
            Self { workload, options, stop, lab: Some(lab), spare: None, clean, release, boots: 1 };
        let (steps, clean) = campaign.clean_run(&trace)?;
        campaign.clean = clean;
        let header = Header::new(workload, &campaign.release, choice, steps);
        Ok((campaign, header))
    }

    fn clean_run(&mut self, trace: &Path) -> Result<(Vec<Steps>, Tables), Error> {
        let Self { lab: Some(lab), workload, .. } = self else { return Err(Error::Stopped) };
        let mut phases = Vec::new();
        for traced in [false, true] {
            if traced {
                lab.trace(Some("work"))?;
            }
            let mut before = 0;
            for phase in Phase::ALL {
                let done = do_phase(lab, workload, phase)?;
                if !done.well() {
                    let why = format!(
                        "without a fault, {} failed (status {:?}): {}",
                        phase.name(),
                        done.status,
                        done.output.trim()
                    );
                    return Err(Error::Clean(why));
                }
                if traced {
                    let after = lab.trace(None)?.events;
                    phases.push((phase, before..after));
                    before = after;
                }
            }
            lab.clean()?;
        }
        lab.trace(Some("off"))?;
        // What the trace has noted is in the file a moment later.
        let total = phases.last().map_or(0, |(_, events)| events.end);
        let deadline = Instant::now() + Duration::from_secs(60);
        let steps = loop {
            let (found, read) = steps::read(trace, &phases)?;
            if read >= total {
                break found;
            }
            if Instant::now() > deadline {
                let why = format!("of {total} events {read} are in the trace after 60 s");
                return Err(Error::Clean(why));
            }
            std::thread::sleep(Duration::from_millis(50));
        };
        Ok((steps, lab.tables()?))
    }

    /// How often a guest was started.
    pub(crate) fn boots(&self) -> u64 {
        self.boots
    }

    /// Runs one case. What is wrong in the end is the case's fault, but for a driver that does not bind
    /// although nothing is armed: that is `before`'s, the case before it in this guest. A case that the
    /// machine was too slow for is run again.
    pub(crate) fn case(
        &mut self,
        case: &Case<'_>,
        before: Option<&mut CaseResult>,
    ) -> Result<CaseResult, Error> {
        let mut result = self.attempt(case, before)?;
        for _ in 0..RETRIES {
            result.disturbed = is_disturbed(case, &result);
            if !result.disturbed {
                break;
            }
            log::info!("{case}: the machine was too slow, again");
            self.drop_guest();
            result = self.attempt(case, None)?;
        }
        Ok(result)
    }

    fn attempt(
        &mut self,
        case: &Case<'_>,
        before: Option<&mut CaseResult>,
    ) -> Result<CaseResult, Error> {
        let began = Instant::now();
        let mut result = CaseResult {
            case: case.to_string(),
            fired: 0,
            phases: [].into(),
            findings: Vec::new(),
            rebooted: false,
            disturbed: false,
            seconds: 0.0,
        };
        if self.lab.is_none() {
            self.boot()?;
        }
        let mut tried = self.try_case(case, &mut result);
        let same_guest = before.is_some();
        if let Ok(None) = tried
            && result.fired == 0
            && same_guest
        {
            // The driver did not get there: did the case before leave it in a bad state?
            if let Some(finding) = self.rebind_fails()? {
                if let Some(before) = before {
                    before.findings.push(finding);
                    before.rebooted = true;
                }
                self.drop_guest();
                self.boot()?;
            }
            (result.fired, result.phases) = (0, [].into());
            result.findings.clear();
            tried = self.try_case(case, &mut result);
        }
        match tried {
            Ok(None) => {}
            Ok(Some(_damaged)) => {
                result.rebooted = true;
                self.drop_guest();
            }
            Err(Broken::Guest(why)) => {
                let outcome = self.lab.take().map(Lab::end);
                let findings = outcome.map(|outcome| judge::dead(&why, &outcome, &self.release));
                for finding in findings.into_iter().flatten() {
                    add(&mut result.findings, finding);
                }
                result.rebooted = true;
            }
            Err(other) => return Err(other.into()),
        }
        result.findings.sort_by_key(|finding| finding.kind);
        result.seconds = began.elapsed().as_secs_f64();
        Ok(result)
    }

    fn boot(&mut self) -> Result<(), Error> {
        self.boots += 1;
        let spare = self.spare.take().map(|spare| spare.join().unwrap_or(Err(Error::Stopped)));
        let mut lab = spare.unwrap_or_else(|| Lab::boot(self.options, None, self.stop));
        for _ in 0..RETRIES {
            let Err(Error::Clean(why)) = &lab else { break };
            log::warn!("a guest did not come up, again: {why}");
            lab = Lab::boot(self.options, None, self.stop);
        }
        self.lab = Some(lab?);
        let (options, stop) = (self.options.clone(), self.stop.clone());
        self.spare = Some(std::thread::spawn(move || Lab::boot(&options, None, &stop)));
        Ok(())
    }

    fn drop_guest(&mut self) {
        drop(self.lab.take());
    }

    /// All phases of a case; says whether the guest is damaged so that it must be started again.
    fn try_case(
        &mut self,
        case: &Case<'_>,
        result: &mut CaseResult,
    ) -> Result<Option<Kind>, Broken> {
        let Self { lab: Some(lab), workload, clean, release, .. } = self else {
            return Err(Broken::Stopped);
        };
        let mut log = Vec::new();
        let mut lost = None;
        for phase in Phase::ALL {
            // Without a card there is nothing to work with; it is unbound all the same.
            let bound = result.phases.get(&Phase::Probe).is_none_or(Done::well);
            if lost.is_some() || (phase == Phase::Work && !bound) {
                continue;
            }
            let armed = phase == case.class.phase;
            if armed {
                lab.arm(case.rule())?;
            }
            let done = do_phase(lab, workload, phase);
            if armed {
                // Even if the guest is gone: the card knows. What has fired stays as it is, a command
                // that is not answered for example; what has not is not to fire later.
                result.fired = lab.fired()?;
                if result.fired == 0 {
                    lab.disarm()?;
                }
            }
            let done = done?;
            log.extend(done.log.iter().cloned());
            let stuck = judge::stuck(&done);
            result.phases.insert(phase, done);
            if let Some(stuck) = stuck {
                // Does it go on when the card does?
                lab.disarm()?;
                let killed = lab.clean()?;
                log.extend(killed.log.iter().cloned());
                lost = judge::stuck(&killed);
                add(&mut result.findings, stuck);
            }
        }
        lab.disarm()?;
        let killed = lab.clean()?;
        log.extend(killed.log.iter().cloned());
        let lost = lost.or_else(|| judge::stuck(&killed));
        for finding in judge::messages(&log, release) {
            // The kernel tells of the process that hung, too, and where.
            if finding.kind == Kind::Hang {
                result.findings.retain(|known| known.kind != Kind::Hang);
            }
            add(&mut result.findings, finding);
        }
        if let Some(lost) = lost {
            add(&mut result.findings, Finding { kind: Kind::Stuck, ..lost });
        }
        let damaged = |findings: &[Finding]| {
            let kinds = findings.iter().map(|finding| finding.kind);
            kinds.min().filter(|kind| *kind <= Kind::Stuck || reports_once(findings))
        };
        if let Some(kind) = damaged(&result.findings) {
            return Ok(Some(kind));
        }
        if let Some(leak) = judge::leak(&lab.tables()?, clean) {
            add(&mut result.findings, leak);
            // A card that is reset has nothing left of it.
            lab.reset()?;
            if judge::leak(&lab.tables()?, clean).is_some() {
                return Ok(Some(Kind::Leak));
            }
        }
        Ok(None)
    }

    /// Whether the driver does not take the card although nothing is armed; and if not, whether a reset of
    /// the function helps.
    fn rebind_fails(&mut self) -> Result<Option<Finding>, Error> {
        let Some(lab) = &mut self.lab else { return Ok(None) };
        let failed = match bind_and_unbind(lab) {
            Ok(done) if done.well() => return Ok(None),
            Ok(done) => done,
            Err(Broken::Guest(why)) => Done { output: why, ..Done::default() },
            Err(other) => return Err(other.into()),
        };
        let again = lab.reset().and_then(|_| bind_and_unbind(lab));
        let unless = match again {
            Ok(done) if done.well() => " without a reset of the function",
            Ok(_) | Err(Broken::Guest(_)) => "",
            Err(other) => return Err(other.into()),
        };
        Ok(Some(Finding {
            kind: Kind::NoRebind,
            what: format!(
                "the driver does not bind again{unless}: {}",
                reason(&failed.output).unwrap_or("no reason was told")
            ),
            detail: failed.log,
        }))
    }
}

fn bind_and_unbind(lab: &mut Lab) -> Result<Done, Broken> {
    let bound = lab.bind()?;
    lab.unbind()?;
    Ok(bound)
}

impl Drop for Campaign<'_> {
    fn drop(&mut self) {
        // It ends with what it has booted.
        if let Some(spare) = self.spare.take() {
            let _ = spare.join();
        }
    }
}

/// How often something is tried again that fails on a machine which is too slow.
const RETRIES: usize = 3;
/// What the driver says of a command that it has waited for in vain.
const TIMEOUT: &str = "timeout. Will cause a leak of a command resource";

/// Whether a command took too long although no fault is about that. With short timeouts this happens
/// on a machine that has too much to do.
fn is_disturbed(case: &Case<'_>, result: &CaseResult) -> bool {
    let mut log = result.phases.values().flat_map(|done| &done.log);
    !case.failure.is_slow() && log.any(|line| line.contains(TIMEOUT))
}

/// Reports that a kernel makes only once.
fn reports_once(findings: &[Finding]) -> bool {
    let once = ["BUG: KASAN", "WARNING: possible", "WARNING: bad unlock", "INFO: possible"];
    findings.iter().any(|finding| once.iter().any(|words| finding.what.starts_with(words)))
}

fn add(findings: &mut Vec<Finding>, finding: Finding) {
    if !findings.iter().any(|known| known.what == finding.what) {
        findings.push(finding);
    }
}

fn do_phase(lab: &mut Lab, workload: &Workload, phase: Phase) -> Result<Done, Broken> {
    match phase {
        Phase::Probe => lab.bind(),
        Phase::Work => lab.work(workload.limit(), &workload.work),
        Phase::Teardown => lab.unbind(),
    }
}
