package roles

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"howdah.dev/howdah/cmd/agent/internal/logicalslot"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/postgres"
)

// leastSubscriptionMajor is the first version in which changes are applied with the rights of the owners of the tables. Before, triggers of
// tables would run as a superuser.
const leastSubscriptionMajor = 16

// unseen keeps the statements of a session out of pg_stat_activity, of pg_stat_statements and of pgaudit's log, as they are kept out of the
// server's log anyway: they have a password.
const unseen = "SET track_activities = off; SET pg_stat_statements.track = none; SET pgaudit.log = none"

// seen ends that.
const seen = "RESET ROLE; RESET ALL"

func (d *declaration) subscriptionsOf(ctx context.Context, conn *pgx.Conn, database agentapi.Database) error {
	for _, wanted := range database.Subscriptions {
		password, arrived := d.Passwords[agentapi.PasswordKey(database.Name, wanted.Name)]
		s := subscriber{conn: conn, wanted: wanted, password: password, arrived: arrived, major: d.Major, mayDrop: d.mayDrop()}
		err := d.errMarks // without them, nobody knows which one must not be enabled
		if err == nil {
			err = s.keepMarked(ctx, d, logicalslot.Subscription{Database: database.Name, Name: wanted.Name})
		}
		if err != nil && password != "" && strings.Contains(err.Error(), password) {
			err = errors.New("PostgreSQL refuses it with a message that has the password")
		}
		if err := d.note(ctx, conn, fmt.Sprintf("subscription %s in database %s", wanted.Name, database.Name), err); err != nil {
			return err
		}
	}
	return nil
}

// subscriber keeps one subscription.
type subscriber struct {
	conn     *pgx.Conn
	wanted   agentapi.Subscription
	password string
	arrived  bool
	major    int
	mark     *logicalslot.Mark // nil: none
	mayDrop  error             // why it must not be dropped; nil: it may be
}

// subscribed is a subscription as it is.
type subscribed struct {
	enabled      bool
	slot         string // empty: none
	connection   string
	publications []string
	commit       string // synchronous_commit
	tables       bool   // it knows any
}

func (s *subscriber) look(ctx context.Context) (found subscribed, err error) {
	err = s.conn.QueryRow(ctx, `SELECT subenabled, coalesce(subslotname::text, ''), subconninfo, subpublications, subsynccommit,
			EXISTS (SELECT FROM pg_catalog.pg_subscription_rel r WHERE r.srsubid = s.oid)
		FROM pg_catalog.pg_subscription s
		WHERE subname = $1 AND subdbid = (SELECT oid FROM pg_catalog.pg_database WHERE datname = pg_catalog.current_database())`, s.wanted.Name).
		Scan(&found.enabled, &found.slot, &found.connection, &found.publications, &found.commit, &found.tables)
	return found, err
}

func (s *subscriber) keep(ctx context.Context) error {
	found, err := s.look(ctx)
	missing := errors.Is(err, pgx.ErrNoRows)
	switch {
	case err != nil && !missing:
		return err
	case s.wanted.Absent && missing:
		return nil
	case s.wanted.Absent && s.mayDrop != nil:
		return s.mayDrop
	case s.wanted.Absent:
		return s.drop(ctx, found)
	case s.major < leastSubscriptionMajor:
		return fmt.Errorf("%w: PostgreSQL %d runs the triggers of the tables as a superuser: use version 17 or later", errRefused, s.major)
	case !s.arrived:
		return fmt.Errorf("%w: its password is not available from its Secret yet", errRefused)
	case missing:
		return s.create(ctx)
	}
	return s.change(ctx, found)
}

// drop a subscription. That of a disabled one leaves the slot at the publisher alone: in a copy of a cluster it is the slot of that cluster. Where
// the slot is known to be ours, it goes as well, as another one of that name is to be created.
func (s *subscriber) drop(ctx context.Context, found subscribed) error {
	name := quote(s.wanted.Name)
	statement := "DROP SUBSCRIPTION " + name
	alone := "BEGIN; ALTER SUBSCRIPTION " + name + " SET (slot_name = NONE); " + statement + "; COMMIT"
	marked := s.mark != nil && s.mark.Ours
	if !found.enabled && !marked {
		statement = alone
	}
	_, err := s.conn.Exec(ctx, statement, pgx.QueryExecModeSimpleProtocol)
	if err != nil && !found.enabled && marked && strings.Contains(err.Error(), fmt.Sprintf("replication slot %q does not exist", found.slot)) {
		_, err = s.conn.Exec(ctx, alone, pgx.QueryExecModeSimpleProtocol) // a person has dropped it there
	}
	if err != nil {
		s.conn.Exec(ctx, "ROLLBACK") //nolint:errcheck // where no transaction is open, that is a warning
	}
	return err
}

// create the subscription as its owner, so that PostgreSQL lets it do no more than the owner may, and insists on the password.
func (s *subscriber) create(ctx context.Context) error {
	owner, err := s.owner(ctx)
	if err != nil {
		return err
	}
	options := []string{
		fmt.Sprintf("enabled = %t", !s.wanted.Disabled), fmt.Sprintf("copy_data = %t", !s.wanted.NoCopy), "slot_name = " + quote(s.slot()),
		"synchronous_commit = " + leastCommit,
	}
	if s.wanted.Failover {
		options = append(options, "failover = true")
	}
	err = s.unseen(ctx, "SET ROLE "+quote(owner), fmt.Sprintf("CREATE SUBSCRIPTION %s CONNECTION %s PUBLICATION %s WITH (%s)",
		quote(s.wanted.Name), postgres.QuoteLiteral(s.connection()), s.publications(), strings.Join(options, ", ")))
	if err != nil && strings.Contains(err.Error(), fmt.Sprintf("replication slot %q already exists", s.slot())) {
		err = fmt.Errorf("%w: the publisher has a slot %s already: if no other server uses it, drop it there with SELECT pg_drop_replication_slot('%[2]s'); otherwise set another slotName",
			errRefused, s.slot())
	}
	return err
}

// leastCommit has a subscription confirm a change only when the replicas that commits wait for have it. By PostgreSQL's default, which is off, it
// confirms what this server alone has. A failover would lose that, as the publisher doesn't send it again.
const leastCommit = "on"

// owner of a new subscription.
func (s *subscriber) owner(ctx context.Context) (owner string, err error) {
	var super, may bool
	err = s.conn.QueryRow(ctx, `SELECT rolname::text, rolsuper, pg_catalog.pg_has_role(oid, 'pg_create_subscription', 'USAGE') FROM pg_catalog.pg_roles
		WHERE CASE WHEN $1 = '' THEN oid = (SELECT datdba FROM pg_catalog.pg_database WHERE datname = pg_catalog.current_database()) ELSE rolname = $1 END`,
		s.wanted.Owner).Scan(&owner, &super, &may)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return "", fmt.Errorf("%w: there is no role %s: declare it in spec.roles", errRefused, s.wanted.Owner)
	case err != nil:
		return "", err
	case super:
		return "", fmt.Errorf("%w: its owner %s is a superuser: set owner to a role that is not a superuser", errRefused, owner)
	case !may:
		return "", fmt.Errorf("%w: its owner %s may not create subscriptions: add pg_create_subscription to inRoles of that role in spec.roles, or set another owner", errRefused, owner)
	}
	return owner, nil
}

// change what differs. The connection comes first: with another one, the rest may not be possible.
func (s *subscriber) change(ctx context.Context, found subscribed) error {
	alter := "ALTER SUBSCRIPTION " + quote(s.wanted.Name)
	if s.wanted.Slot != "" && found.slot != "" && found.slot != s.wanted.Slot {
		return fmt.Errorf("%w: its slot is %s: set ensure: Absent first, or slotName: %[2]s", errRefused, found.slot)
	}
	if found.connection != s.connection() {
		if err := s.unseen(ctx, alter+" CONNECTION "+postgres.QuoteLiteral(s.connection())); err != nil {
			return err
		}
	}
	if !slices.Equal(sorted(found.publications), sorted(s.wanted.Publications)) {
		refresh := fmt.Sprintf(" WITH (refresh = %t)", found.enabled)
		if _, err := s.conn.Exec(ctx, alter+" SET PUBLICATION "+s.publications()+refresh); err != nil {
			return err
		}
	}
	var statements []string
	if found.commit != leastCommit && found.commit != "remote_apply" {
		statements = append(statements, alter+" SET (synchronous_commit = "+leastCommit+")")
	}
	enable := !found.enabled && !s.wanted.Disabled
	var skips error
	if enable {
		skips = s.skips(found)
	}
	switch {
	case found.enabled && s.wanted.Disabled:
		statements = append(statements, alter+" DISABLE")
	case !enable || skips != nil:
	case found.slot == "":
		statements = append(statements, alter+" SET (slot_name = "+quote(s.slot())+")", alter+" ENABLE")
	default:
		statements = append(statements, alter+" ENABLE")
	}
	for _, statement := range statements {
		if _, err := s.conn.Exec(ctx, statement); err != nil {
			return err
		}
	}
	return skips
}

// unseen runs statements that have the password.
func (s *subscriber) unseen(ctx context.Context, statements ...string) error {
	if _, err := s.conn.Exec(ctx, unseen, pgx.QueryExecModeSimpleProtocol); err != nil {
		return err
	}
	var err error
	for _, statement := range statements {
		if _, err = s.conn.Exec(ctx, statement, pgx.QueryExecModeSimpleProtocol); err != nil {
			break
		}
	}
	_, reset := s.conn.Exec(context.WithoutCancel(ctx), seen, pgx.QueryExecModeSimpleProtocol)
	return errors.Join(err, reset)
}

func (s *subscriber) slot() string { return cmp.Or(s.wanted.Slot, s.wanted.Name) }

func (s *subscriber) publications() string {
	var names []string
	for _, name := range sorted(s.wanted.Publications) {
		names = append(names, quote(name))
	}
	return strings.Join(names, ", ")
}

// connectTime is how long the publisher may take to answer, in seconds.
const connectTime = "10"

func (s *subscriber) connection() string {
	var words []string
	for _, option := range append(slices.Clone(s.wanted.Publisher), agentapi.ConnectionOption{Keyword: "connect_timeout", Value: connectTime},
		agentapi.ConnectionOption{Keyword: "password", Value: s.password}) {
		words = append(words, option.Keyword+"="+postgres.QuoteConnInfo(option.Value))
	}
	return strings.Join(words, " ")
}
