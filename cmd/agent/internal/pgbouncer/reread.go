package pgbouncer

import (
	"context"
	"crypto/sha256"
	"errors"
	"os"
	"path/filepath"
	"reflect"

	"github.com/jackc/pgx/v5/pgconn"

	"howdah.dev/howdah/cmd/agent/internal/settings"
	"howdah.dev/howdah/pkg/agentapi"
)

// reread takes in a changed configuration, and has PgBouncer read what of it is PgBouncer's, and its certificates.
func (p *Pooler) reread(ctx context.Context) {
	config, err := p.readConfig()
	if err != nil {
		p.Log.Warn("the configuration can't be read; the previous one stays", "error", err)
		return
	}
	next := setup{config, p.sum()}
	switch {
	case next.is(setup{p.config, p.files}):
		p.refuses(nil)
		return
	case p.refused != nil && next.is(*p.refused):
		return
	}
	if p.isNews(next) {
		err := p.bouncer.settle(ctx, settleTime, int(p.config.PoolSize)) // other certificates end all sessions, and a login that is under way would fail
		if err == nil {
			err = p.bouncer.use(ctx, config, p.servers)
		}
		if err != nil {
			p.goBack(ctx, next, err)
			return
		}
	}
	p.config, p.files, p.mind.knownLagOnly = config, next.files, config.KnownLagOnly
	p.refuses(nil)
	p.Log.Info("the configuration was read again")
	p.watchServer() // clients may be kept waiting in the new mode
	p.tell()
}

// setup is a configuration and the sum of the certificates beside it.
type setup struct {
	config agentapi.PoolerConfig
	files  [sha256.Size]byte
}

func (s setup) is(other setup) bool {
	return s.files == other.files && reflect.DeepEqual(s.config, other.config)
}

// isNews says whether PgBouncer has to read something again.
func (p *Pooler) isNews(s setup) bool {
	return s.files != p.files || s.config.ClientTLS.CA != p.config.ClientTLS.CA || render(s.config, p.Paths, p.servers) != render(p.config, p.Paths, p.servers)
}

// goBack uses the previous configuration again. Of one that it refuses, PgBouncer takes over what comes before the mistake, and the rest is its
// own default: without certificates, and maybe without TLS.
func (p *Pooler) goBack(ctx context.Context, from setup, refusal error) {
	var said *pgconn.PgError
	refused := errors.As(refusal, &said) // rather than that there was no answer
	if reflect.DeepEqual(from.config, p.config) {
		refused = false // there are only other certificates: it is no other configuration to go back to
	} else if err := p.bouncer.use(ctx, p.config, p.servers); err != nil {
		refusal, refused = errors.Join(refusal, err), false
	} else {
		p.files = from.files // which were read with it
	}
	if !refused {
		p.Log.Error("PgBouncer can't read its configuration again; trying again", "error", refusal)
		return
	}
	p.refuses(&from)
	p.Log.Error("PgBouncer refuses the changed configuration, and its log says why; the previous one stays", "error", refusal)
}

// sum tells whether certificate, key or CA are others.
func (p *Pooler) sum() (sum [sha256.Size]byte) {
	hash := sha256.New()
	for _, name := range []string{settings.CertFile, settings.KeyFile, settings.CAFile} {
		content, err := os.ReadFile(filepath.Join(p.TLSDir, name))
		if err != nil {
			return p.files // it is being replaced
		}
		hash.Write(content)
	}
	if content, err := os.ReadFile(serverCA(p.Paths)); err == nil {
		hash.Write(content)
	}
	return [sha256.Size]byte(hash.Sum(nil))
}
