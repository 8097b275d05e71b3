//! Where the health server listens.

use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use rustix::io::Errno;

/// Binds `address`. `[::]`, every address of both families, is 0.0.0.0 where the machine has no IPv6.
pub(super) fn bind<T>(
    address: SocketAddr,
    bind: impl Fn(SocketAddr) -> io::Result<T>,
) -> io::Result<T> {
    let bound = bind(address);
    match bound {
        Err(error) if address.ip() == Ipv6Addr::UNSPECIFIED && lacks_family(&error) => {
            let every = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), address.port());
            tracing::info!(listen = %every, error = %error, "this machine has no IPv6");
            bind(every)
        }
        bound => bound,
    }
}

fn lacks_family(error: &io::Error) -> bool {
    error.kind() == ErrorKind::AddrNotAvailable
        || error.raw_os_error() == Some(Errno::AFNOSUPPORT.raw_os_error())
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    const EVERY: &str = "[::]:8080";

    /// What is bound in the end, where binding to an address of IPv6 fails so.
    fn bound(address: &str, error: Errno) -> Result<String, Option<i32>> {
        let bound = bind(address.parse().unwrap(), |address| {
            if address.is_ipv6() {
                return Err(io::Error::from_raw_os_error(error.raw_os_error()));
            }
            Ok(address.to_string())
        });
        bound.map_err(|error| error.raw_os_error())
    }

    /// Proves: P-health
    #[rstest]
    #[case::no_such_family(Errno::AFNOSUPPORT)]
    #[case::no_such_address(Errno::ADDRNOTAVAIL)]
    fn without_ipv6_every_address_is_every_one_of_ipv4(#[case] error: Errno) {
        assert_eq!(bound(EVERY, error).as_deref(), Ok("0.0.0.0:8080"));
        let one = bound("[::1]:8080", error);
        assert_eq!(one, Err(Some(error.raw_os_error())), "one address is meant");
    }

    /// Proves: P-health
    #[test]
    fn a_port_that_is_taken_is_an_error() {
        let taken = Errno::ADDRINUSE;
        assert_eq!(bound(EVERY, taken), Err(Some(taken.raw_os_error())));
        assert_eq!(bound("127.0.0.1:1", taken).as_deref(), Ok("127.0.0.1:1"));
    }

    /// On this machine, with IPv6 or without.
    /// Proves: P-health
    #[test]
    fn every_address_has_that_of_ipv4() {
        let listener = bind("[::]:0".parse().unwrap(), std::net::TcpListener::bind).unwrap();
        let port = listener.local_addr().unwrap().port();
        std::net::TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
    }
}
