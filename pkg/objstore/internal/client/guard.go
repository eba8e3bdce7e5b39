package client

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"syscall"

	"howdah.dev/howdah/pkg/objstore"
)

// maxAnswer bounds what is read of an answer that is no object: a list has a thousand keys at most, and an error is short.
const maxAnswer = 16 << 20

// Guard makes of a transport one for requests to the endpoint of the config, which may be a tenant's: it doesn't dial what the
// config's policy refuses, and bounds answers. Credentials are asked for without it, as clouds offer them at link-local addresses.
func Guard(transport *http.Transport, config objstore.Config) http.RoundTripper {
	dialer := newDialer()
	dialer.ControlContext = func(_ context.Context, _, address string, _ syscall.RawConn) error {
		resolved, err := netip.ParseAddrPort(address)
		if err != nil {
			return fmt.Errorf("%w: %w", objstore.ErrConfig, err)
		}
		return config.Dial.Check(resolved.Addr())
	}
	transport.DialContext = watched(dialer)
	return &guard{transport, config.Dial}
}

type guard struct {
	transport *http.Transport
	policy    objstore.DialPolicy
}

// RoundTrip sends a request. An address in its URL is checked here, too, as a proxy would dial it.
func (g *guard) RoundTrip(request *http.Request) (*http.Response, error) {
	if address, err := netip.ParseAddr(request.URL.Hostname()); err == nil {
		if err := g.policy.Check(address); err != nil {
			return nil, err
		}
	}
	response, err := g.transport.RoundTrip(request)
	if err == nil && !isObject(request, response) {
		response.Body = &bounded{response.Body, maxAnswer}
	}
	return response, err
}

// isObject says whether an answer is the content of an object, of which readers know how much they want.
func isObject(request *http.Request, response *http.Response) bool {
	if request.Method != http.MethodGet || response.StatusCode/100 != 2 {
		return false
	}
	for parameter := range request.URL.Query() {
		if parameter != "x-id" && parameter != "versionId" {
			return false
		}
	}
	return true
}

// bounded is a body of which only so many bytes are read.
type bounded struct {
	io.ReadCloser
	left int64
}

func (b *bounded) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, fmt.Errorf("%w: the answer is larger than %d MiB", objstore.ErrTooLarge, maxAnswer>>20)
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
