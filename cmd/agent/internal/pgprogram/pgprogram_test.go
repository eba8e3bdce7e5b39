package pgprogram

import (
	"errors"
	"strings"
	"testing"
)

func TestWhatAProgramSaysOfRowsIsNotRepeated(t *testing.T) {
	s := &Said{}
	for _, part := range []string{"pg_restore: processing data for table \"public.a\"\npg_restore: err", "or: COPY failed for table \"a\": ERROR:  invalid byte sequence\n",
		"DETAIL:  Key (name)=(secret) already exists.\n", "CONTEXT:  COPY a, line 1: \"secret ERROR: \"\n", "Command was: ALTER ROLE x PASSWORD 'secret'\n"} {
		if _, err := s.Write([]byte(part)); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Explain("pg_restore", errors.New("exit status 1")); strings.Contains(err.Error(), "secret") || !strings.Contains(err.Error(), "COPY failed for table") {
		t.Error(err)
	}
}
