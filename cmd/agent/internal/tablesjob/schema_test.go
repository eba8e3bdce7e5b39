package tablesjob

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"howdah.dev/howdah/cmd/agent/internal/job"
	"howdah.dev/howdah/pkg/agentapi"
)

func TestSchemasThatExistAndWhatIsNoPartOfASchemaStayBehind(t *testing.T) {
	for line, want := range map[string]bool{
		"7; 2615 16390 SCHEMA - sales shop":                          true,
		"3407; 0 0 COMMENT - SCHEMA sales shop":                      true,
		"3408; 0 0 ACL - SCHEMA sales shop":                          true,
		"7; 2615 16391 SCHEMA - other shop":                          false,
		"215; 1259 16400 TABLE sales events owner":                   false,
		"3400; 0 0 ACL public TABLE orders shop":                     false,
		"2; 3079 16386 EXTENSION - citext ":                          true,
		"3409; 0 0 COMMENT - EXTENSION citext ":                      true,
		"3300; 826 16410 DEFAULT ACL sales DEFAULT PRIVILEGES FOR x": true,
		"3301; 3466 16411 EVENT TRIGGER - guard postgres":            true,
		"not a line": false,
	} {
		if got := staysBehind(line, []string{"public", "sales"}); got != want {
			t.Errorf("%q: %t", line, got)
		}
	}
}

func TestOfTheCommandsToPsqlOnlyThoseThatFrameAScriptAreRemoved(t *testing.T) {
	const body = "SET x = 0;\nSELECT '\n\\restrict other\n';\n\\unrestrict other\n"
	for script, want := range map[string]string{
		body: body,
		"--\n-- dump\n--\n\n\\restrict aB3\n" + body + "\n\\unrestrict aB3\n\n": "--\n-- dump\n--\n\n" + body + "\n\n",
	} {
		if got := withoutRestrict(script); got != want {
			t.Errorf("%q, and not %q", got, want)
		}
	}
}

func TestAScriptWaitsForLocksAsLongAsTheSession(t *testing.T) {
	w := &Worker{LockTimeout: 10 * time.Second}
	script := "SET statement_timeout = 0;\nSET lock_timeout = 0;\nSELECT '\nSET lock_timeout = 0;\n';\n"
	if got := w.withLockTimeout(script); got != "SET statement_timeout = 0;\nSET lock_timeout = 10000;\nSELECT '\nSET lock_timeout = 0;\n';\n" {
		t.Error(got)
	}
}

func TestWhatAFailoverOrALockHasEndedBeginsAgainAndNothingElse(t *testing.T) {
	server := func(code string) error {
		return fmt.Errorf("x: %w", &pgconn.PgError{Code: code, Message: "value \"secret\" in 'secret'"})
	}
	for name, c := range map[string]struct {
		err    error
		passes bool
		reason string
	}{
		"a lost connection":         {io.ErrUnexpectedEOF, true, ""},
		"a standby":                 {errStandby, true, ""},
		"an administrator":          {server("57P01"), true, ReasonNotCopied},
		"a lock":                    {server("55P03"), true, ReasonNotCopied},
		"a read-only server":        {server("25006"), true, ReasonNotCopied},
		"a table that exists":       {server("42P07"), false, ReasonObjectExists},
		"no right":                  {server("42501"), false, ReasonRoleUnsuitable},
		"a foreign key":             {server("23503"), false, ReasonNotCopied},
		"a value that is too large": {server("22003"), false, ReasonNotCopied},
		"a decision":                {job.Final(ReasonObjectMissing, errStandby), false, ReasonObjectMissing},
	} {
		failure := &job.Failure{}
		if got := passes(c.err); got != c.passes {
			t.Errorf("%s passes: %t", name, got)
		}
		if err := explain(c.err); c.reason != "" && (!errors.As(err, &failure) || failure.Reason != c.reason) || strings.Contains(err.Error(), "'secret'") {
			t.Errorf("%s: %v", name, err)
		}
	}
	w := &Worker{unknown: true}
	if err := w.explain(io.ErrUnexpectedEOF); !strings.Contains(err.Error(), "either all of it was restored, or nothing") {
		t.Error(err)
	}
}

func TestADumpIsOfWhatIsWantedAlone(t *testing.T) {
	wanted := []relation{{Schema: "public", Name: `odd "name"`, Kind: kindTable}, {Schema: "public", Name: "own", Kind: kindSequence, Owned: true}}
	for name, c := range map[string]struct {
		task agentapi.TablesJob
		want string
	}{
		"tables":                {agentapi.TablesJob{Tables: []string{"public.x"}}, `--exclude-schema=howdah_* --table="public"."odd ""name"""`},
		"schemas":               {agentapi.TablesJob{Schemas: []string{"a", "B"}}, `--exclude-schema=howdah_* --schema="a" --schema="B"`},
		"a schema into another": {agentapi.TablesJob{Schemas: []string{"a"}, IntoSchema: "b"}, `--exclude-schema=howdah_* --schema="b"`},
		"all":                   {agentapi.TablesJob{}, `--exclude-schema=howdah_*`},
		"tables into a schema":  {agentapi.TablesJob{Tables: []string{"public.x"}, IntoSchema: "b"}, `--exclude-schema=howdah_* --table="public"."odd ""name"""`},
	} {
		w := &Worker{Task: c.task}
		if got := strings.Join(w.dumpArguments(wanted), " "); !strings.HasSuffix(got, c.want) {
			t.Errorf("%s: %s", name, got)
		}
	}
}
