//! The page in a real browser, without a display or a network.
//!
//! Debian's chromium is used. As root the test installs it; otherwise, where there is none, it says so and
//! does nothing.

mod common;

use std::fs;
use std::path::Path;
use std::process::Command;

/// Finds a browser, or installs one.
fn browser() -> Option<&'static str> {
    const NAMES: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];
    let there = |name: &&&str| {
        Command::new(name).arg("--version").output().is_ok_and(|output| output.status.success())
    };
    if let Some(name) = NAMES.iter().find(there) {
        return Some(name);
    }
    let is_root = Command::new("id").arg("-u").output().is_ok_and(|output| output.stdout == b"0\n");
    if is_root {
        for arguments in [
            &["update", "-q"][..],
            &["install", "-q", "-y", "--no-install-recommends", "chromium", "fonts-dejavu-core"],
        ] {
            let _ = Command::new("apt-get").args(arguments).output();
        }
    }
    NAMES.iter().find(there).copied()
}

/// The page's document after its script has run, with `script` run at the end of it.
fn open(browser: &str, place: &Path, page: &str, fragment: &str, script: &str) -> String {
    let file = place.join("page.html");
    fs::write(&file, page.replace("</body>", &format!("<script>{script}</script></body>")))
        .unwrap();
    let output = Command::new(browser)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--window-size=1400,1200"])
        .args(["--host-resolver-rules=MAP * ~NOTFOUND", "--virtual-time-budget=5000", "--dump-dom"])
        .arg(format!("--user-data-dir={}", place.join("profile").display()))
        .arg(format!("file://{}{fragment}", file.display()))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn the_page_needs_nothing_else() {
    let page = explain::page(&common::story());
    for outside in ["http://", "https://", "src=", "@import", "url("] {
        assert!(!page.contains(outside), "{outside}");
    }
}

#[test]
fn a_browser_shows_it() {
    let Some(browser) = browser() else {
        eprintln!(
            "skipped: no chromium here, and it could not be installed (apt-get install chromium)"
        );
        return;
    };
    let story = common::story();
    let page = explain::page(&story);
    let place = tempfile::tempdir().unwrap();

    let shown = open(browser, place.path(), &page, "", "");
    assert!(
        shown.contains(&format!("data-ready=\"{}\"", story.spans.len())),
        "the script ran to its end"
    );
    let registration =
        story.calls.iter().find(|call| story.spans[call.span].name == "ibv_reg_mr").unwrap();
    for line in &registration.answers {
        let (_, text) = line.split_once(':').unwrap();
        assert!(shown.contains(text), "{line}");
    }
    let frames = story.calls.iter().filter_map(|call| call.frames.as_ref());
    let equal: usize = frames.map(|frames| frames.compared().1).sum();
    assert!(equal >= 17, "{equal}");
    assert_eq!(shown.matches(">equal</td>").count(), equal, "page frames beside translations");

    // A link to a step opens it, with its bytes.
    let bytes = story.spans.iter().position(|span| span.detail.is_some()).unwrap();
    let detail = &story.details[story.spans[bytes].detail.unwrap()];
    let shown = open(browser, place.path(), &page, &format!("#span{bytes}"), "");
    assert!(
        shown.contains(&format!("{}, {} bytes", detail.structure, detail.length)),
        "{detail:?}"
    );

    // What a person does: zooms, moves, selects, looks for something, changes the colours.
    let act = r##"{
        const width = () => view.to - view.from, before = width();
        const box = canvas.getBoundingClientRect();
        const at = { clientX: box.left + 400, clientY: box.top + lanes[0].top + 10, bubbles: true, pointerId: 1 };
        canvas.setPointerCapture = () => {};
        canvas.dispatchEvent(new WheelEvent("wheel", { ...at, deltaY: -400, cancelable: true }));
        const zoomed = width() < before, from = view.from;
        canvas.dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowRight" }));
        const moved = view.from > from;
        fit(spans[data.calls.find(call => call.main).span]);
        canvas.dispatchEvent(new PointerEvent("pointerdown", at));
        canvas.dispatchEvent(new PointerEvent("pointerup", at));
        const chosen = selected.lane === 0 && byId("step").textContent.includes(label(selected));
        byId("find").value = "cmd_exec";
        byId("find").dispatchEvent(new Event("input"));
        const found = hits.size > 0 && [...hits].every(span => span.name.includes("cmd_exec"));
        const theme = document.documentElement.dataset.theme;
        byId("theme").click();
        const turned = document.documentElement.dataset.theme !== theme;
        document.documentElement.dataset.acted = [zoomed, moved, chosen, found, turned].join();
    }"##;
    let shown = open(browser, place.path(), &page, "", act);
    assert!(
        shown.contains("data-acted=\"true,true,true,true,true\""),
        "zoomed, moved, selected, found, turned: {:?}",
        shown.get(..200)
    );
}
