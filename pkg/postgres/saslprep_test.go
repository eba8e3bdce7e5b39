package postgres

import "testing"

func TestAPasswordIsPreparedAsByLibpq(t *testing.T) {
	for name, c := range map[string]struct{ password, want string }{
		"nothing but ASCII":                {"pass\x7fword", "pass\x7fword"},
		"a ligature":                       {"ﬁnal", "final"},
		"an accent of its own":             {"cafe\u0301", "café"},
		"a Roman number":                   {"\u2168", "IX"},
		"a soft hyphen":                    {"I\u00adX", "IX"},
		"a hard space":                     {"a\u00a0b", "a b"},
		"nothing but what vanishes":        {"\u00ad", "\u00ad"},
		"what is prohibited":               {"ﬁ\u0007", "ﬁ\u0007"},
		"what had no meaning in 2002":      {"ﬁ😀", "ﬁ😀"},
		"from right to left":               {"\u0627ﹰ\u0627", "\u0627 \u064b\u0627"},
		"from right to left, with a digit": {"ﬁ\u06271", "ﬁ\u06271"},
		"no UTF-8":                         {"ﬁ\xff", "ﬁ\xff"},
	} {
		if got := PreparePassword(c.password); got != c.want {
			t.Errorf("%s: %+q, not %+q", name, got, c.want)
		}
	}
}
