#!/bin/bash
# What lies above verbs, each with both ends in this guest: upper.sh WHAT
#
# `subnet` comes first: rdma_cm needs a subnet manager for its routes and IPoIB for its addresses.
set -euo pipefail
address=10.9.9.1

# Says what it waits for when it waits in vain.
wait_for() {
    for ((i = 0; i < 300; i++)); do
        if eval "$2" >/dev/null 2>&1; then return; fi
        sleep 0.2
    done
    echo "waited 60 s for $1" >&2
    exit 1
}

subnet() {
    modprobe -a ib_umad ib_ipoib rdma_ucm
    opensm -B -f /tmp/opensm.log >/dev/null
    wait_for 'a subnet manager that rules' 'sminfo | grep SMINFO_MASTER'
    sminfo
    local netdev
    netdev=$(ls /sys/class/infiniband/mlx5_0/device/net)
    ip link set "$netdev" up
    ip address add $address/24 dev "$netdev"
    wait_for 'the link of IPoIB' "ip link show $netdev | grep LOWER_UP"
    wait_for 'its IPv6 address' "ip -6 address show dev $netdev -tentative | grep fe80"
    ip address show "$netdev"
}

cm() {
    rping -s -a $address -C 20 &
    sleep 1
    rping -c -a $address -C 20 -v | tail -1
    wait
}

nvme() {
    modprobe -a nvmet nvmet-rdma nvme-rdma loop
    truncate -s 64M /root/disk
    losetup /dev/loop0 /root/disk
    mountpoint -q /sys/kernel/config || mount -t configfs none /sys/kernel/config
    cd /sys/kernel/config/nvmet
    mkdir subsystems/test subsystems/test/namespaces/1 ports/1
    echo 1 >subsystems/test/attr_allow_any_host
    echo -n /dev/loop0 >subsystems/test/namespaces/1/device_path
    echo 1 >subsystems/test/namespaces/1/enable
    echo ipv4 >ports/1/addr_adrfam
    echo rdma >ports/1/addr_trtype
    echo 4420 >ports/1/addr_trsvcid
    echo $address >ports/1/addr_traddr
    ln -s "$PWD/subsystems/test" ports/1/subsystems/test
    echo "transport=rdma,traddr=$address,trsvcid=4420,nqn=test" >/dev/nvme-fabrics
    wait_for 'the disk' 'test -b /dev/nvme0n1'
    head -c 16M /dev/urandom >/tmp/wanted
    dd if=/tmp/wanted of=/dev/nvme0n1 bs=1M oflag=direct status=none
    cmp -n 16777216 /tmp/wanted /root/disk
    dd if=/dev/nvme0n1 of=/tmp/read bs=1M count=16 iflag=direct status=none
    cmp /tmp/wanted /tmp/read
    echo 1 >/sys/class/nvme/nvme0/delete_controller
    rm ports/1/subsystems/test
    echo '16 MiB written and read again are equal'
}

rds() {
    modprobe -a rds rds_rdma
    python3 - $address <<'PYTHON'
import ctypes, os, socket, sys

libc = ctypes.CDLL(None, use_errno=True)
place = lambda port: socket.AF_INET.to_bytes(2, "little") + port.to_bytes(2, "big") + socket.inet_aton(sys.argv[1]) + bytes(8)
ends = [socket.socket(socket.AF_RDS, socket.SOCK_SEQPACKET) for _ in range(2)]
for port, end in enumerate(ends, 4000):
    if libc.bind(end.fileno(), place(port), 16):
        sys.exit(f"bind: {os.strerror(ctypes.get_errno())}")
data = os.urandom(100000)
ends[1].settimeout(60)
if libc.sendto(ends[0].fileno(), data, len(data), 0, place(4001), 16) != len(data):
    sys.exit(f"sendto: {os.strerror(ctypes.get_errno())}")
if ends[1].recv(1 << 20) != data:
    sys.exit("what came is not what was sent")
print("100000 bytes sent and received are equal")
PYTHON
}

"$@"
