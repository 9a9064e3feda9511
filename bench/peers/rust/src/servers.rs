//! Servers on a listening socket that weft-bench passes as descriptor 3: a task a connection.
use std::os::unix::io::FromRawFd;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

const RESPONSE: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 6\r\n\r\nhello\n";

/// Each piece that is read is answered with itself, or with the response.
async fn answer(mut stream: TcpStream, http: bool) {
    let mut buffer = [0u8; 1024];
    let _ = stream.set_nodelay(true);
    while let Ok(n) = stream.read(&mut buffer).await {
        let said = if http { RESPONSE } else { &buffer[..n] };
        if n == 0 || stream.write_all(said).await.is_err() {
            return;
        }
    }
}

pub async fn serve(http: bool) -> bool {
    let listener = unsafe { std::net::TcpListener::from_raw_fd(3) };
    if listener.set_nonblocking(true).is_err() {
        return false;
    }
    if let Ok(listener) = TcpListener::from_std(listener) {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(answer(stream, http));
        }
    }
    false
}
