//! What is seen of a card with a driver: the tree, and what Prometheus is told.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use control::{ClientError, Metrics, Node, RefusalKind, Request};
use driver::Driver;
use driver::mkey::{Access, Region};
use driver::vfio_user::VfioUser;

use crate::running::Running;

const MEMORY: u64 = 256 << 20;

fn inspect(running: &Running, node: &str) -> Node {
    running.control().ask(Request::Inspect { node: node.into(), limit: 3 }).unwrap()
}

#[test]
fn the_tree_has_what_the_driver_made() {
    let running = Running::start();
    let mut driver = Driver::new(VfioUser::connect(&running.socket(), MEMORY).unwrap());
    let mut device = driver.power_on().unwrap();
    let pd = driver.alloc_pd().unwrap();
    let page = driver.memory.alloc(4096).unwrap();
    let (start, len, pages) = (0x7f00_0000_0000, 4096, vec![page]);
    let region = Region { start, len, log_page_size: 12, pages, pd, access: Access::ALL };
    let registered = driver.register(&mut device, &region).unwrap();

    let root = inspect(&running, "");
    let names: Vec<_> = root.children.iter().map(|child| &*child.name).collect();
    for name in ["function", "capabilities", "pages", "eqs", "cqs", "qps", "mkeys", "port"] {
        assert!(names.contains(&name), "{name} of {names:?}");
    }
    // Every node that the root has can be asked for, and every object that a list has.
    for child in &root.children {
        for object in &inspect(&running, &child.name).children {
            if !["capabilities", "port"].contains(&&*child.name) {
                let path = format!("{}/{}", child.name, object.name);
                let all = inspect(&running, &path);
                assert_eq!(all.name, object.name);
                assert!(!all.values.contains_key("error"), "{path}: {:?}", all.values);
                assert!(all.values.len() >= object.values.len(), "{path}");
            }
        }
    }
    let mkeys = inspect(&running, "mkeys");
    assert_eq!(mkeys.children.len(), 3);
    let count = mkeys.values["count"].as_u64().unwrap();
    assert_eq!(mkeys.more, count - 3);
    let key = inspect(&running, &format!("mkeys/{:#x}", registered.key));
    assert_eq!(key.values["pd"], pd);
    assert_eq!(key.children[0].name, format!("{page:#x}"));
    let set = inspect(&running, "capabilities");
    let general = set.children.iter().find(|child| child.name == "general").unwrap();
    assert!(general.values.contains_key("log_max_qp"), "{:?}", general.values);
    for node in ["nothing", "qps/0xffffff", "qps/0x2/more", "mkeys/none"] {
        let request = Request::Inspect { node: node.into(), limit: 3 };
        let refused = running.control().ask_json(request);
        assert!(
            matches!(&refused, Err(ClientError::Refused(why)) if why.kind == RefusalKind::NotFound),
            "{node}: {refused:?}"
        );
    }
    driver.deregister(&mut device, registered).unwrap();
    driver.power_off(device).unwrap();
}

fn get(running: &Running, request: &str) -> String {
    let mut stream = TcpStream::connect(running.metrics.unwrap()).unwrap();
    write!(stream, "{request} HTTP/1.1\r\nHost: card\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn prometheus_is_told_what_is_counted() {
    let running = Running::start_with(|options| {
        options.metrics = Some(([127, 0, 0, 1], 0).into());
    });
    crate::boot::session(&running);
    running.wait_disconnected();
    let answer = get(&running, "GET /metrics");
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    assert!(answer.contains("Content-Type: text/plain; version=0.0.4"), "{answer}");
    assert!(answer.contains("mlx5emu_commands_total{opcode=\"INIT_HCA\"} 1\n"), "{answer}");
    assert!(answer.contains("mlx5emu_connections_total 1\n"), "{answer}");
    assert!(get(&running, "GET /").starts_with("HTTP/1.1 404"));
    assert!(get(&running, "POST /metrics").starts_with("HTTP/1.1 405"));
    let metrics: Metrics = running.control().ask(Request::Metrics {}).unwrap();
    assert_eq!(metrics.status.connections, 1);
    // Commands one at a time: each was measured.
    assert!(metrics.latencies["commands"].count > 10, "{:?}", metrics.latencies);
}

#[test]
fn fault_rules_are_in_the_tree() {
    let running = Running::start();
    assert_eq!(inspect(&running, "faults").children, []);
    let rule = serde_json::json!({
        "name": "no reply",
        "at": "command",
        "where": { "opcode": "QUERY_ADAPTER" },
        "do": { "status": "BAD_RES" },
    });
    let _: control::Faults = running.control().ask(Request::FaultAdd { rule }).unwrap();
    let one = inspect(&running, "faults/no reply");
    assert_eq!((&one.values["at"], &one.values["fired"]), (&"command".into(), &0.into()));
}
