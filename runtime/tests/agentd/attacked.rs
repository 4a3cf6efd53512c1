//! What a crowd costs that wants nothing but to be there.

use std::net::SocketAddr;
use std::sync::Arc;

use rustls::ClientConfig;
use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpSocket, TcpStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::commands::Desk;
use crate::world::World;

/// Of those who wait, one in so many has ended its handshake.
const GREETED: usize = 20;

/// A thousand places of which each may hold a handshake, a buffer of a head and a window, and what an allocator keeps.
const GROWTH_KIB: u64 = 96 * 1024;

/// A connection that is held open and not used.
#[expect(dead_code)]
enum Idle {
    Silent(TcpStream),
    Greeted(Box<TlsStream<TcpStream>>),
}

/// The address of the crowd, and that of everybody else.
const CROWD: &str = "127.0.0.2:0";
const OTHERS: &str = "127.0.0.1:0";

async fn connect(from: &str, to: SocketAddr) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(from.parse().unwrap()).unwrap();
    socket.connect(to).await.unwrap()
}

fn resident_kib(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.unwrap().trim().trim_end_matches(" kB").parse().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn s12_ten_thousand_idle_connections_keep_nobody_out_and_take_little() {
    let world = World::new().await;
    let desk = Desk::start(&world).await;
    desk.says("ann", "c", "hello", false).await;
    let mut roots = RootCertStore::empty();
    let certificate = CertificateDer::from_pem_file(world.folder.path().join("cert.pem")).unwrap();
    roots.add(certificate).unwrap();
    let config = ClientConfig::builder()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let connector = TlsConnector::from(Arc::new(config));
    let before = resident_kib(desk.agentd.pid());
    let mut crowd = Vec::new();
    for number in 0..10_000 {
        let mut stream = connect(CROWD, desk.address).await;
        crowd.push(match number % GREETED {
            0 => {
                let name = "localhost".try_into().unwrap();
                Idle::Greeted(Box::new(connector.connect(name, stream).await.unwrap()))
            }
            1 => {
                // The first bytes of a ClientHello that never comes.
                stream.write_all(&[0x16, 0x03, 0x01, 0x02, 0x00]).await.unwrap();
                Idle::Silent(stream)
            }
            _ => Idle::Silent(stream),
        });
        if number % 1000 == 999 {
            desk.says("ann", "c", &format!("hello {number}"), false).await;
        }
    }
    let grown = resident_kib(desk.agentd.pid()).saturating_sub(before);
    assert!(grown < GROWTH_KIB, "{grown} KiB more");
    // Who is not of the crowd comes in anew, too.
    let stream = connect(OTHERS, desk.address).await;
    connector
        .connect("localhost".try_into().unwrap(), stream)
        .await
        .unwrap();
}
