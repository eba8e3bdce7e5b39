package storetest

import (
	"bufio"
	"crypto/tls"
	"io"
	"net/http"
	"time"
)

// serverPatience is how long a server may take to end a request that breaks.
const serverPatience = 30 * time.Second

// breakLate passes a part of a request's body on and keeps the connection to the server, which doesn't know yet that no more will come.
func (r *Relay) breakLate(request *http.Request, bytes int64) {
	conn, err := tls.Dial("tcp", r.behind, &tls.Config{RootCAs: r.trusted})
	if err != nil {
		r.t.Error(err)
		return
	}
	part := request.Clone(request.Context())
	part.Body = io.NopCloser(io.LimitReader(request.Body, bytes))
	to := bufio.NewWriter(conn)
	_ = part.Write(to) // says that the body is shorter than its length
	if err := to.Flush(); err != nil {
		r.t.Error(err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.late = append(r.late, conn)
}

// BreakLate breaks the connections to the server that LateIn has left, and returns when it has ended their requests. It fails if there
// are none.
func (r *Relay) BreakLate() {
	r.t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.late) == 0 {
		r.t.Error("no request is left to break")
	}
	for _, conn := range r.late {
		if err := conn.CloseWrite(); err != nil {
			r.t.Error(err)
		}
		if err := conn.SetReadDeadline(time.Now().Add(serverPatience)); err != nil {
			r.t.Error(err)
		}
		if _, err := io.Copy(io.Discard, conn); err != nil {
			r.t.Logf("the server ends the request with %v", err)
		}
		_ = conn.Close()
	}
	r.late = nil
}
