package supervise

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"howdah.dev/howdah/cmd/agent/internal/settings"
	"howdah.dev/howdah/pkg/agentapi"
)

const (
	pollInterval = time.Second // of the files that Kubernetes projects into the pod
	passwordFile = "password"
)

// inputs are all that the agent is told from outside. It is comparable by key.
type inputs struct {
	config   agentapi.Config
	err      error // why config can't be read; the other fields are empty then
	password string
	super    string
	declared map[string]string // passwords that have arrived, by role
	ldap     string            // what rules of pg_hba.conf search a directory with
	tls      [sha256.Size]byte // of certificate, key and CA
	key      [sha256.Size]byte // of everything
}

// read reads what is there now.
func (p Paths) read() inputs {
	raw, err := os.ReadFile(p.ConfigFile)
	if err != nil {
		return inputs{err: fmt.Errorf("the agent's configuration can't be read: %w", err)}
	}
	in := inputs{}
	if err := json.Unmarshal(raw, &in.config); err != nil {
		return inputs{err: fmt.Errorf("the agent's configuration %s: %w", p.ConfigFile, err)}
	}
	all := sha256.New()
	all.Write(raw)
	password, errPassword := readSecret(p.AppDir)
	super, errSuper := "", error(nil)
	if in.config.SuperuserAccess {
		super, errSuper = readSecret(p.SuperuserDir)
	}
	arrived, errDeclared := readPasswords(p.RolesFile, &in.config)
	if err := errors.Join(errPassword, errSuper, errDeclared); err != nil {
		return inputs{err: err}
	}
	in.password, in.super, in.declared = password, super, declaredIn(arrived, in.config.Declared)
	if in.config.LDAPPassword {
		in.ldap = string(arrived[agentapi.LDAPPasswordKey])
	}
	fmt.Fprintf(all, "\x00%s\x00%s\x00%q\x00%q\x00", password, super, in.declared, in.ldap)
	certificates := sha256.New()
	for _, name := range []string{settings.CertFile, settings.KeyFile, settings.CAFile} {
		content, err := os.ReadFile(filepath.Join(p.TLSDir, name))
		if err != nil {
			return inputs{err: fmt.Errorf("the server's TLS files can't be read: %w", err)}
		}
		fmt.Fprintf(certificates, "%d\x00%s", len(content), content)
	}
	for _, name := range []string{settings.CertFile, settings.KeyFile, settings.CAFile} { // a cluster of one has none
		content, err := os.ReadFile(filepath.Join(p.PeerTLSDir, name))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return inputs{err: fmt.Errorf("the TLS files for other instances can't be read: %w", err)}
		}
		fmt.Fprintf(certificates, "%d\x00%s", len(content), content)
	}
	own, err := p.readOwnTLS(time.Now())
	if err != nil {
		return inputs{err: err}
	}
	fmt.Fprintf(certificates, "%q %q %q %q %q %t", own.certificate, own.key, own.servers, own.ldap, own.clients, own.invalid)
	certificates.Sum(in.tls[:0])
	all.Write(in.tls[:])
	all.Sum(in.key[:0])
	return in
}

// readSecret reads the password in a mounted Secret; a Secret that isn't mounted has none.
func readSecret(dir string) (string, error) {
	content, err := os.ReadFile(filepath.Join(dir, passwordFile))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return strings.TrimRight(string(content), "\r\n"), err
}

// readPasswords reads those in RolesFile, if the configuration wants any. One that isn't there is on its way.
func readPasswords(file string, config *agentapi.Config) (agentapi.Passwords, error) {
	if config.Declared == nil && !config.LDAPPassword {
		return nil, nil
	}
	content, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	all := agentapi.Passwords{}
	if err := json.Unmarshal(content, &all); err != nil {
		return nil, fmt.Errorf("the passwords of roles in %s can't be read", file) // the error may quote them
	}
	return all, nil
}

// declaredIn are the passwords of what is declared.
func declaredIn(all agentapi.Passwords, declared *agentapi.Declared) map[string]string {
	if declared == nil {
		return nil
	}
	passwords := map[string]string{}
	for _, role := range declared.Roles {
		if password, there := all[role.Name]; there && role.Password {
			passwords[role.Name] = string(password)
		}
	}
	for _, database := range declared.Databases {
		for _, subscription := range database.Subscriptions {
			key := agentapi.PasswordKey(database.Name, subscription.Name)
			if password, there := all[key]; there {
				passwords[key] = string(password)
			}
		}
	}
	return passwords
}

// watch sends the inputs at once and whenever they have changed, the newest only, until ctx ends.
func (p Paths) watch(ctx context.Context) <-chan inputs {
	newest := make(chan inputs, 1)
	go func() {
		tick := time.NewTicker(pollInterval)
		defer tick.Stop()
		last := inputs{err: errors.New("nothing was read yet")}
		for {
			in := p.read()
			if in.key != last.key || errorText(in.err) != errorText(last.err) {
				last = in
				select {
				case <-newest: // nobody has taken the one before
				default:
				}
				newest <- in
			}
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
		}
	}()
	return newest
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
