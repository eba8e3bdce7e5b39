package secret

import "testing"

func TestPasswordsOfRolesHaveAnotherRevisionWithEachContentAndNoneThatTellsOfIt(t *testing.T) {
	first := Roles(shop(), nil, map[string][]byte{"a": []byte("x")})
	same := Roles(shop(), first, map[string][]byte{"a": []byte("x")})
	if got := same.Annotations[AnnotationRevision]; got == "" || got != first.Annotations[AnnotationRevision] {
		t.Errorf("the same content has revision %q", got)
	}
	seen := map[string]bool{first.Annotations[AnnotationRevision]: true}
	for name, passwords := range map[string]map[string][]byte{
		"another password": {"a": []byte("y")}, "one more": {"a": []byte("x"), "b": nil}, "none": nil,
	} {
		got := Roles(shop(), first, passwords).Annotations[AnnotationRevision]
		if seen[got] {
			t.Errorf("%s: revision %q again", name, got)
		}
		seen[got] = true
	}
	if again := Roles(shop(), nil, map[string][]byte{"a": []byte("x")}); seen[again.Annotations[AnnotationRevision]] {
		t.Error("a revision is made of the content, and tells when it is guessed right")
	}
}
