//! What QEMU has to be told to use a card.

use serde_json::json;

/// QEMU's arguments for the card behind `socket`, one a line. Guest memory must be a shared file; how much is the
/// user's to change (in both places).
pub fn qemu_args(socket: &str) -> Vec<String> {
    // The card is behind a port of its own: an endpoint on the root bus has no link and can't be unplugged. The
    // port's link is as fast and wide as the card's. Its slot is PCI Express's own: QEMU's ACPI slots do not say
    // that the link is up, and a kernel that resets the bus waits for that.
    let card = json!({
        "driver": "vfio-user-pci",
        "bus": "mlx5emu-port",
        "socket": {"type": "unix", "path": socket},
    });
    [
        "-machine",
        "q35,memory-backend=mlx5emu-memory",
        "-m",
        "2G",
        "-object",
        "memory-backend-memfd,id=mlx5emu-memory,size=2G,share=on",
        "-global",
        "ICH9-LPC.acpi-pci-hotplug-with-bridge-support=off",
        "-device",
        "pcie-root-port,id=mlx5emu-port,chassis=1,slot=1,x-speed=16,x-width=16",
        "-device",
    ]
    .map(Into::into)
    .into_iter()
    .chain([card.to_string()])
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_option_has_its_value_and_the_path_is_quoted() {
        let args = qemu_args("/run/a \"card\".socket");
        assert_eq!(args.len() % 2, 0);
        for pair in args.chunks(2) {
            assert!(pair[0].starts_with('-') && !pair[1].starts_with('-'), "{pair:?}");
            assert!(!pair[1].contains('\n'));
        }
        let card: serde_json::Value = serde_json::from_str(args.last().unwrap()).unwrap();
        assert_eq!(card["socket"]["path"], "/run/a \"card\".socket");
        let port = &args[args.len() - 3];
        assert!(port.contains(&format!("id={}", card["bus"].as_str().unwrap())));
    }
}
