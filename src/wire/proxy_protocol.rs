//! PROXY protocol version 2: the true address of a client behind a load balancer
//! (haproxy.org, "The PROXY protocol, Versions 1 & 2", section 2.2).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use tokio::io::{AsyncRead, AsyncReadExt};

const SIGNATURE: [u8; 12] = *b"\r\n\r\n\0\r\nQUIT\n";
/// Addresses take 36 bytes at most; what follows are extensions nobody needs here.
const MAX_BODY: usize = 536;

/// Reads the header. `Ok(None)` when the balancer speaks for itself (a health check).
pub async fn read(stream: &mut (impl AsyncRead + Unpin)) -> Result<Option<IpAddr>, ProxyError> {
    let mut head = [0; 16];
    stream.read_exact(&mut head).await.map_err(|_| ProxyError)?;
    if head[..12] != SIGNATURE {
        return Err(ProxyError);
    }
    let length = usize::from(u16::from_be_bytes([head[14], head[15]]));
    if length > MAX_BODY {
        return Err(ProxyError);
    }
    let mut body = [0; MAX_BODY];
    let body = &mut body[..length];
    stream.read_exact(body).await.map_err(|_| ProxyError)?;
    match (head[12], head[13] >> 4) {
        (0x21, 1) if body.len() >= 12 => {
            let address: [u8; 4] = body[..4].try_into().map_err(|_| ProxyError)?;
            Ok(Some(IpAddr::V4(Ipv4Addr::from(address))))
        }
        (0x21, 2) if body.len() >= 36 => {
            let address: [u8; 16] = body[..16].try_into().map_err(|_| ProxyError)?;
            Ok(Some(IpAddr::V6(Ipv6Addr::from(address)).to_canonical()))
        }
        (0x20, _) | (0x21, 0 | 3) => Ok(None),
        _ => Err(ProxyError),
    }
}

/// What came was no PROXY header of version 2.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("no PROXY protocol v2 header")]
pub struct ProxyError;

#[cfg(test)]
mod tests {
    use super::*;

    fn header(command: u8, family: u8, body: &[u8]) -> Vec<u8> {
        let length = u16::try_from(body.len()).unwrap().to_be_bytes();
        [&SIGNATURE[..], &[command, family], &length, body].concat()
    }

    async fn address(bytes: Vec<u8>) -> Result<Option<IpAddr>, ProxyError> {
        read(&mut &bytes[..]).await
    }

    #[tokio::test]
    async fn addresses_are_read_and_garbage_is_refused() {
        let v4 = header(0x21, 0x11, &[192, 0, 2, 7, 127, 0, 0, 1, 1, 2, 3, 4]);
        assert_eq!(address(v4).await, Ok(Some("192.0.2.7".parse().unwrap())));
        let mut v6 = [0; 40];
        v6[..16].copy_from_slice(&"2001:db8::9".parse::<Ipv6Addr>().unwrap().octets());
        assert_eq!(
            address(header(0x21, 0x21, &v6)).await,
            Ok(Some("2001:db8::9".parse().unwrap()))
        );
        assert_eq!(address(header(0x20, 0, &[])).await, Ok(None));
        assert_eq!(address(header(0x21, 0x11, &[1, 2])).await, Err(ProxyError));
        assert_eq!(address(header(0x11, 0x11, &[0; 12])).await, Err(ProxyError));
        assert_eq!(address(b"PROXY TCP4 1.2.3.4 5.6.7.8 1 2\r\n".to_vec()).await, Err(ProxyError));
        assert_eq!(address(header(0x21, 0x11, &[0; 600])).await, Err(ProxyError));
    }
}
