package client

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"syscall"
	"time"

	"howdah.dev/howdah/pkg/objstore"
)

// maxAnswer bounds what is read of an answer: a list has a thousand keys at most, and an error is short. Who reads an object says with Want
// how much of it may be more. The clients read answers that they can't make out to their end.
const maxAnswer = 16 << 20

// Guard makes of a transport one for requests to the endpoint of the config, which may be a tenant's: it doesn't dial what the
// config's policy refuses, and bounds answers. Credentials are asked for without it, as clouds offer them at link-local addresses.
func Guard(transport *http.Transport, config objstore.Config) http.RoundTripper {
	dialer := newDialer()
	dialer.ControlContext = func(ctx context.Context, _, address string, _ syscall.RawConn) error {
		resolved, err := netip.ParseAddrPort(address)
		if err != nil {
			return fmt.Errorf("%w: %w", objstore.ErrConfig, err)
		}
		return config.Dial.CheckDial(ctx, resolved.Addr())
	}
	transport.DialContext = watched(dialer)
	return &guard{transport, config.Dial}
}

type guard struct {
	transport *http.Transport
	policy    objstore.DialPolicy
}

// RoundTrip sends a request. The host in its URL is checked here, too, as a proxy would dial it.
func (g *guard) RoundTrip(request *http.Request) (*http.Response, error) {
	ctx := request.Context()
	if err := g.policy.CheckHost(ctx, request.URL.Hostname()); err != nil {
		return nil, err
	}
	request, sent := tracked(request)
	response, err := g.transport.RoundTrip(request)
	if err == nil && response.StatusCode/100 == 3 {
		sent.wait(ctx)
	}
	if err == nil {
		limit := wanted(ctx)
		response.Body = &bounded{response.Body, limit, limit}
	}
	return response, err
}

// body of a request, of which is known when the transport is done with it. An http.Client that is redirected closes it as well, and
// not every body may be closed by two at a time.
type body struct {
	io.ReadCloser
	once   sync.Once
	closed chan struct{}
}

// tracked is the request with such a body, if it has one. Only over plain HTTP is a body signed while it is sent; elsewhere the
// transport shall see it as it is, which is faster.
func tracked(request *http.Request) (*http.Request, *body) {
	if request.URL.Scheme != "http" || request.Body == nil || request.Body == http.NoBody {
		return request, nil
	}
	copied, sent := *request, &body{ReadCloser: request.Body, closed: make(chan struct{})}
	copied.Body = sent
	return &copied, sent
}

// Close notes that the transport is done.
func (b *body) Close() error {
	err := b.ReadCloser.Close()
	b.once.Do(func() { close(b.closed) })
	return err
}

// wait until the transport is done, or as long as a small body may take.
func (b *body) wait(ctx context.Context) {
	if b == nil {
		return
	}
	select {
	case <-b.closed:
	case <-ctx.Done():
	case <-time.After(time.Second):
	}
}

// bounded is a body of which only this many bytes are read.
type bounded struct {
	io.ReadCloser
	limit, left int64
}

func (b *bounded) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, fmt.Errorf("%w: the answer is larger than %d MiB", objstore.ErrTooLarge, b.limit>>20)
	}
	n, err := b.ReadCloser.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	return n, err
}

// NoRedirects has a client take a redirect for the answer: it would lead to another address than the one that is configured.
func NoRedirects(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

func newDialer() *net.Dialer { return &net.Dialer{Timeout: dialTimeout, KeepAlive: keepAlive} }

// watched dials connections that don't stall for ever.
func watched(dialer *net.Dialer) func(ctx context.Context, network, addr string) (net.Conn, error) {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dialer.DialContext(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return &watchedConn{Conn: conn}, nil
	}
}
