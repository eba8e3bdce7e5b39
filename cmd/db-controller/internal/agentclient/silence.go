package agentclient

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"

	"howdah.dev/howdah/pkg/agentapi"
)

// Silence of an agent that was asked and has not answered since.
type Silence struct {
	// Since is when it was first asked in vain.
	Since time.Time
	// Error is what the last attempt has met, in short.
	Error string
	// Unreached: the attempt got no answer at all, as where the network lets nothing through.
	Unreached bool
}

// longestError is how many bytes of an error are kept.
const longestError = 200

// silenceOf an agent, by the error of the last attempt.
func silenceOf(target Target, err error, since time.Time) Silence {
	address := net.JoinHostPort(target.IP, strconv.Itoa(cmp.Or(target.Port, agentapi.AgentPort)))
	var dial *net.OpError
	silence := Silence{Since: since, Unreached: errors.As(err, &dial) && dial.Op == "dial"}
	if timeout := net.Error(nil); errors.Is(err, context.DeadlineExceeded) || errors.As(err, &timeout) && timeout.Timeout() {
		silence.Unreached, silence.Error = true, fmt.Sprintf("%s doesn't answer in time", address)
		return silence
	}
	text := err.Error()
	if called := new(url.Error); errors.As(err, &called) {
		text = called.Err.Error() // without the URL
	}
	if len(text) > longestError {
		text = strings.ToValidUTF8(text[:longestError], "") + "…"
	}
	silence.Error = text
	return silence
}
