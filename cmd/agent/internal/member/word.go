package member

import (
	"context"
	"net/http"
	"time"

	"howdah.dev/howdah/cmd/agent/internal/elect"
	"howdah.dev/howdah/pkg/agentapi"
)

// Word is a member as those know it who bring it datagrams.
type Word struct{ Member *Member }

// AskedWord answers a holder that asks for the word of this instance. True is a promise not to take the lease for a while.
func (w Word) AskedWord(request elect.WordRequest) (given bool) {
	w.Member.tell(func(core *elect.Core, now time.Duration) { given = core.AskedWord(now, request) })
	return given
}

// HeardWord takes in that another instance has given its word.
func (w Word) HeardWord(member string, term int64, number elect.Time) {
	w.Member.tell(func(core *elect.Core, now time.Duration) { core.HeardWord(now, member, term, number) })
}

// AgreeWord brings a member the key with which the datagrams between the two are signed.
func (h *HTTPS) AgreeWord(ctx context.Context, to elect.Member, key agentapi.WordKey) (answer agentapi.WordAnswer, err error) {
	return answer, h.call(ctx, to, http.MethodPost, agentapi.RouteWord, key, &answer)
}

// noted says how the lease is kept, in the status of who holds it.
func noted(status *agentapi.ElectionStatus, renewal *elect.Renewal) {
	if renewal == nil {
		return
	}
	status.Renewal, status.Silent = agentapi.RenewalAPIServer, renewal.Silent
	if renewal.ByWord {
		status.Renewal = agentapi.RenewalMembers
	}
}
