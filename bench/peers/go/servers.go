// Servers on a listening socket that weft-bench passes as descriptor 3: a goroutine a connection.
package main

import (
	"net"
	"os"
)

var response = []byte("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 6\r\n\r\nhello\n")

// Each piece that is read is answered with itself, or with the response.
func answer(conn net.Conn, http bool) {
	defer conn.Close()
	buffer := make([]byte, 1024)
	for {
		n, err := conn.Read(buffer)
		if err != nil {
			return
		}
		said := buffer[:n]
		if http {
			said = response
		}
		if _, err = conn.Write(said); err != nil {
			return
		}
	}
}

func serve(http bool) bool {
	listener, err := net.FileListener(os.NewFile(3, "listener"))
	for err == nil {
		var conn net.Conn
		if conn, err = listener.Accept(); err == nil {
			go answer(conn, http)
		}
	}
	return false
}
