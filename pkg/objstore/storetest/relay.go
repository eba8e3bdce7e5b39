package storetest

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"howdah.dev/howdah/pkg/objstore"
)

// Relay stands before a real S3 server, and spoils what passes through it.
type Relay struct {
	t       testing.TB
	behind  string // address of the server
	trusted *x509.CertPool
	cert    tls.Certificate
	proxy   *httputil.ReverseProxy

	mu     sync.Mutex // guards what follows
	addr   string
	server *http.Server // nil while it is stopped
	spoil  func(Request) Fault
	late   []*tls.Conn // to the server, of requests that the client has given up

	passing sync.RWMutex // held for reading by every request that is on its way
}

// Request is one request as the server would get it.
type Request struct {
	*http.Request
	Number int // counted from 1 since Spoil
}

// Fault is what becomes of a request. The zero value is nothing.
type Fault struct {
	Status   int    // answered without asking the server
	Body     string // of that answer
	Code     string // or the S3 error in it
	CutIn    int64  // the connection breaks once this many bytes of the request's body have passed
	LateIn   int64  // the same, but the server notices only at BreakLate
	CutOut   int64  // the same for the answer's body
	FlipIn   bool   // the first byte of the request's body is another on its arrival
	NoAnswer bool   // the server does it, and the connection breaks before it can say so
	Rate     int64  // bytes that pass in a second, either way
}

// NewRelay puts a relay before the server of the config, and returns the config that leads there.
func NewRelay(t testing.TB, config objstore.Config) (*Relay, objstore.Config) {
	t.Helper()
	behind, err := url.Parse(config.Endpoint)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM([]byte(config.CABundle))
	face := httptest.NewUnstartedServer(http.NotFoundHandler()) // for its certificate
	face.StartTLS()
	cert := face.TLS.Certificates[0]
	face.Close()
	r := &Relay{t: t, behind: behind.Host, trusted: pool, addr: "127.0.0.1:0", cert: cert}
	r.proxy = &httputil.ReverseProxy{
		Rewrite: func(p *httputil.ProxyRequest) { // the host stays: it is signed
			p.Out.URL.Scheme, p.Out.URL.Host = behind.Scheme, behind.Host
			p.Out.Host = p.In.Host
		},
		Transport:      &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, DisableCompression: true},
		ModifyResponse: spoilAnswer,
		ErrorHandler:   func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
		ErrorLog:       log.New(io.Discard, "", 0),
	}
	r.Start()
	t.Cleanup(r.Stop)
	config.Endpoint = "https://" + r.addr
	config.CABundle = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Certificate[0]}))
	return r, config
}

// Spoil decides from now on what becomes of each request; nil lets all of them pass.
func (r *Relay) Spoil(spoil func(Request) Fault) {
	number := atomic.Int64{}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.spoil = nil
	if spoil != nil {
		r.spoil = func(request Request) Fault {
			request.Number = int(number.Add(1))
			return spoil(request)
		}
	}
}

// Stop breaks every connection and refuses new ones, as a server that was killed.
func (r *Relay) Stop() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.server != nil {
		r.server.Close()
	}
	r.server = nil
}

// Start is a server that comes back, when nothing that was sent earlier is on its way beyond the relay any more.
func (r *Relay) Start() {
	r.passing.Lock()
	defer r.passing.Unlock()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.server != nil {
		return
	}
	listener, err := net.Listen("tcp", r.addr)
	if err != nil {
		r.t.Error(err)
		return
	}
	r.addr = listener.Addr().String()
	server := &http.Server{
		Handler: r, TLSConfig: &tls.Config{Certificates: []tls.Certificate{r.cert}}, ErrorLog: log.New(io.Discard, "", 0),
	}
	r.server = server
	go func() { _ = server.ServeTLS(listener, "", "") }() // ends with Stop
}

type faultKey struct{}

var errCut = errors.New("cut off")

// ServeHTTP passes a request on, or spoils it.
func (r *Relay) ServeHTTP(answer http.ResponseWriter, request *http.Request) {
	r.passing.RLock()
	defer r.passing.RUnlock()
	fault, stopped := r.judge(request)
	if stopped {
		panic(http.ErrAbortHandler)
	}
	if fault.Status != 0 {
		_, _ = io.Copy(io.Discard, request.Body) // else the client may see the connection break before it sees the answer
		fault.answer(answer)
		return
	}
	if fault.LateIn > 0 {
		r.breakLate(request, fault.LateIn)
		panic(http.ErrAbortHandler)
	}
	request.Body = fault.body(request.Body, fault.CutIn)
	if fault.FlipIn {
		request.Body = &flippedBody{ReadCloser: request.Body}
	}
	// What the server has got whole it does, whatever becomes of the client.
	r.proxy.ServeHTTP(answer, request.WithContext(withFault(context.WithoutCancel(request.Context()), fault)))
}

// judge asks what becomes of a request. Asking may stop the server.
func (r *Relay) judge(request *http.Request) (fault Fault, stopped bool) {
	r.mu.Lock()
	spoil := r.spoil
	r.mu.Unlock()
	if spoil != nil {
		fault = spoil(Request{Request: request})
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return fault, r.server == nil
}

func (f Fault) answer(answer http.ResponseWriter) {
	answer.Header().Set("Content-Type", "application/xml")
	answer.WriteHeader(f.Status)
	if f.Code != "" {
		f.Body = fmt.Sprintf("<?xml version=\"1.0\" encoding=\"UTF-8\"?><Error><Code>%s</Code><Message>spoilt</Message></Error>", f.Code)
	}
	_, _ = io.WriteString(answer, f.Body)
}

func spoilAnswer(response *http.Response) error {
	fault := faultOf(response.Request.Context())
	if fault.NoAnswer {
		return errCut
	}
	response.Body = fault.body(response.Body, fault.CutOut)
	return nil
}

// body is one that passes slowly, or not whole.
func (f Fault) body(body io.ReadCloser, cut int64) io.ReadCloser {
	if body == nil || body == http.NoBody || cut == 0 && f.Rate == 0 {
		return body
	}
	return &spoiltBody{ReadCloser: body, left: cut, cuts: cut > 0, rate: f.Rate}
}

type spoiltBody struct {
	io.ReadCloser
	left int64
	cuts bool
	rate int64
}

// Read reads some, slowly, or fails.
func (b *spoiltBody) Read(p []byte) (int, error) {
	if b.cuts && b.left <= 0 {
		return 0, errCut
	}
	if b.cuts {
		p = p[:min(int64(len(p)), b.left)]
	}
	n, err := b.ReadCloser.Read(p)
	b.left -= int64(n)
	if b.rate > 0 {
		time.Sleep(time.Duration(n) * time.Second / time.Duration(b.rate))
	}
	return n, err
}

// flippedBody has another first byte.
type flippedBody struct {
	io.ReadCloser
	flipped bool
}

func (b *flippedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if n > 0 && !b.flipped {
		p[0] ^= 1
		b.flipped = true
	}
	return n, err
}

func withFault(ctx context.Context, fault Fault) context.Context {
	return context.WithValue(ctx, faultKey{}, fault)
}

func faultOf(ctx context.Context) Fault {
	fault, _ := ctx.Value(faultKey{}).(Fault)
	return fault
}
