//! An API server for unit tests, on its own port: its answers are given byte by byte.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

use kube::{Client, Config};

/// A client of a server that gives the nth connection the nth of these answers, and then closes it.
pub fn loopback(answers: Vec<String>) -> Client {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for answer in answers {
            let (mut connection, _) = listener.accept().unwrap();
            take_in(&mut connection);
            connection.write_all(answer.as_bytes()).unwrap();
        }
    });
    let config = Config::new(format!("http://{address}").parse().unwrap());
    Client::try_from(config).unwrap()
}

/// A client of a server that accepts every connection and answers none.
pub fn silent() -> Client {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || listener.incoming().collect::<Vec<_>>());
    let config = Config::new(format!("http://{address}").parse().unwrap());
    Client::try_from(config).unwrap()
}

pub fn answer(status: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "HTTP/1.1 {status} Status\r\ncontent-type: application/json\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}"
    )
}

/// Reads a request to its end: unread bytes would reset the connection, and the answer would be lost.
fn take_in(connection: &mut TcpStream) {
    let mut request = Vec::new();
    let mut byte = [0];
    while !request.ends_with(b"\r\n\r\n") {
        connection.read_exact(&mut byte).unwrap();
        request.push(byte[0]);
    }
    let head = String::from_utf8(request).unwrap().to_ascii_lowercase();
    let mut lines = head.lines();
    let length = lines.find_map(|line| line.strip_prefix("content-length: "));
    let length: usize = length.map_or(0, |length| length.trim().parse().unwrap());
    connection.read_exact(&mut vec![0; length]).unwrap();
}
