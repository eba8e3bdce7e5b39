package objstore

import (
	"errors"
	"fmt"
	"strings"
)

// CodeIdentityRefused is the Error.Code of drivers that have asked the cloud for credentials, and were refused. Err is then an IdentityError.
const CodeIdentityRefused = "IdentityRefused"

// IdentityError is what the cloud says when it gives an identity no credentials.
type IdentityError struct {
	// Subject is whom the token of the pod is for, such as system:serviceaccount:shop:shop-instance; empty if there is no token.
	Subject string
	// Code and Message are the words of the cloud.
	Code, Message string
	Err           error
}

// Error is the cause, with what a person needs to ask the cloud about it.
func (e *IdentityError) Error() string { return e.Err.Error() }

// Unwrap is the cause.
func (e *IdentityError) Unwrap() error { return e.Err }

func explainIdentity(e *Error) string {
	refused := &IdentityError{}
	if e.Code != CodeIdentityRefused || !errors.As(e.Err, &refused) {
		return ""
	}
	said := strings.Trim(refused.Code+": "+strings.TrimSuffix(refused.Message, "."), ": ")
	if refused.Subject == "" {
		return fmt.Sprintf("The cloud refuses the identity for the object store (%s): check the trust policy of its role.", said)
	}
	return fmt.Sprintf("The cloud refuses the identity of the pod for the object store (%s): check that the trust policy of its role accepts %s.", said, refused.Subject)
}
