//! The socket in the file system.

use std::fs;
use std::io::{ErrorKind, Read};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::os::unix::net::{UnixDatagram, UnixListener, UnixStream};

use device::vfio_user::{BindError, Listener};

#[test]
fn only_its_owner_may_connect() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    let _listener = Listener::bind(&path).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o7777, 0o600);
}

#[test]
fn it_is_removed_at_the_end_but_not_another_in_its_place() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    drop(Listener::bind(&path).unwrap());
    assert!(!path.exists());

    let first = Listener::bind(&path).unwrap();
    fs::rename(&path, folder.path().join("elsewhere")).unwrap();
    let second = Listener::bind(&path).unwrap();
    let inode = fs::metadata(&path).unwrap().ino();
    drop(first);
    assert_eq!(fs::metadata(&path).unwrap().ino(), inode);
    UnixStream::connect(&path).unwrap();
    drop(second);
    assert!(!path.exists());
}

#[test]
fn a_stale_one_is_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    // The standard library's leaves its file behind, as a server that was killed does.
    drop(UnixListener::bind(&path).unwrap());
    assert!(path.exists());
    let _listener = Listener::bind(&path).unwrap();
    UnixStream::connect(&path).unwrap();
}

#[test]
fn one_in_use_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    let first = Listener::bind(&path).unwrap();
    assert!(matches!(Listener::bind(&path), Err(BindError::InUse)));
    // Also while its server is slow to accept.
    let mut waiting = Vec::new();
    loop {
        let socket = rustix::net::socket_with(
            rustix::net::AddressFamily::UNIX,
            rustix::net::SocketType::STREAM,
            rustix::net::SocketFlags::NONBLOCK,
            None,
        )
        .unwrap();
        let address = rustix::net::SocketAddrUnix::new(&path).unwrap();
        match rustix::net::connect(&socket, &address) {
            Ok(()) => waiting.push(socket),
            Err(error) => break assert_eq!(error, rustix::io::Errno::AGAIN),
        }
    }
    assert!(matches!(Listener::bind(&path), Err(BindError::InUse)));
    assert!(first.accept(false).unwrap().is_some());

    let other = folder.path().join("datagrams");
    let _datagrams = UnixDatagram::bind(&other).unwrap();
    assert!(matches!(Listener::bind(&other), Err(BindError::InUse)));
}

#[test]
fn what_is_not_a_socket_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    fs::write(&path, "precious").unwrap();
    let link = folder.path().join("link");
    symlink(&path, &link).unwrap();
    for taken in [&path, &link, &folder.path().to_path_buf()] {
        assert!(matches!(Listener::bind(taken), Err(BindError::NotASocket)), "{taken:?}");
    }
    assert_eq!(fs::read_to_string(&path).unwrap(), "precious");
}

#[test]
fn a_path_has_107_bytes_at_most() {
    let folder = tempfile::tempdir().unwrap();
    let room = 107 - folder.path().as_os_str().len() - 1;
    let fits = folder.path().join("x".repeat(room));
    let _listener = Listener::bind(&fits).unwrap();
    UnixStream::connect(&fits).unwrap();
    let error = Listener::bind(&folder.path().join("x".repeat(room + 1))).unwrap_err();
    assert!(matches!(error, BindError::PathTooLong(108)));
    assert_eq!(error.to_string(), "the path has 108 bytes, a socket's can have 107");
}

#[test]
fn a_folder_that_is_not_there_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let error = Listener::bind(&folder.path().join("no/socket")).unwrap_err();
    assert!(matches!(error, BindError::System(error) if error.kind() == ErrorKind::NotFound));
}

#[test]
fn a_second_client_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    let listener = Listener::bind(&path).unwrap();
    assert!(listener.accept(false).unwrap().is_none());
    let connect = || UnixStream::connect(&path).unwrap();
    let is_closed = |client: &mut UnixStream| match client.read(&mut [0]) {
        Ok(count) => count == 0,
        Err(error) => error.kind() == ErrorKind::ConnectionReset,
    };
    let (first, mut second) = (connect(), connect());
    let connection = listener.accept(false).unwrap();
    assert!(connection.is_some());
    assert!(is_closed(&mut second));
    let mut third = connect();
    assert!(listener.accept(true).unwrap().is_none());
    assert!(is_closed(&mut third));
    first.set_nonblocking(true).unwrap();
    assert_eq!((&first).read(&mut [0]).unwrap_err().kind(), ErrorKind::WouldBlock);
    drop(connection);
    let _next = connect();
    assert!(listener.accept(false).unwrap().is_some());
}
