package objstore

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"regexp"
	"strings"
	"syscall"
)

// CodeNoCredentials is the Error.Code of drivers that found no credentials to sign with.
const CodeNoCredentials = "NoCredentials"

// Explain says in one sentence, for a person, what is wrong with the store: the endpoint can't be
// reached, the access key is wrong, there is no such bucket, its certificate isn't trusted. It names
// what to look at, and never a secret. A nil error is the empty string.
func Explain(err error) string {
	if err == nil {
		return ""
	}
	if errors.Is(err, ErrConfig) {
		_, sentence, _ := strings.Cut(err.Error(), ErrConfig.Error()+": ")
		return sentence
	}
	fault := &Error{}
	if !errors.As(err, &fault) {
		return err.Error()
	}
	for _, explain := range []func(*Error) string{explainIdentity, explainTLS, explainCode, explainNetwork, explainKind} {
		if sentence := explain(fault); sentence != "" {
			return sentence
		}
	}
	if !fault.isS3() {
		return explainForeign(fault)
	}
	return err.Error()
}

// codeOfS3 is what an S3 server writes into the Code of an error.
var codeOfS3 = regexp.MustCompile(`^[A-Z][A-Za-z0-9.]{2,63}$`)

// isS3 says whether the text of an error may be shown: it is an S3 server's, or our own. Whoever names the endpoint of a
// repository must not learn from its status what another service at that address says.
func (e *Error) isS3() bool {
	for _, own := range []error{ErrTorn, ErrTooLarge, ErrCorrupt, ErrExists, context.Canceled, io.ErrUnexpectedEOF} {
		if errors.Is(e, own) {
			return true
		}
	}
	return e.Err == nil || e.Code != "UnknownError" && codeOfS3.MatchString(e.Code)
}

func explainForeign(e *Error) string {
	return fmt.Sprintf("%s does not respond as an S3 server does.", e.server())
}

func (e *Error) server() string {
	if e.Endpoint == "" {
		return "AWS S3"
	}
	return e.Endpoint
}

func explainTLS(e *Error) string {
	var (
		untrusted x509.UnknownAuthorityError
		hostname  x509.HostnameError
		invalid   x509.CertificateInvalidError
		record    tls.RecordHeaderError
	)
	switch {
	case errors.As(e.Err, &untrusted):
		return fmt.Sprintf("The TLS certificate of %s is not trusted; give the certificate of its CA as the CA bundle.", e.server())
	case errors.As(e.Err, &hostname):
		return fmt.Sprintf("The TLS certificate of %s is for another name.", e.server())
	case errors.As(e.Err, &invalid):
		return fmt.Sprintf("The TLS certificate of %s is not valid, or has expired.", e.server())
	case errors.As(e.Err, &record), strings.Contains(errorText(e.Err), "server gave HTTP response to HTTPS client"):
		return fmt.Sprintf("%s does not speak TLS; write the endpoint with http:// and allow it (spec.s3.insecure: true, --insecure) if that is meant.", e.server())
	case strings.Contains(errorText(e.Err), "HTTP request to an HTTPS server"):
		return fmt.Sprintf("%s speaks TLS; write the endpoint with https://.", e.server())
	}
	return ""
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func explainCode(e *Error) string {
	switch e.Code {
	case CodeNoCredentials:
		return "No credentials were found for the object store: name a Secret with them, or give the pod an identity of the cloud."
	case "InvalidAccessKeyId", "XAdminNoSuchUser", "XAdminUserNotFound":
		return fmt.Sprintf("%s does not know the access key ID.", e.server())
	case "SignatureDoesNotMatch":
		return fmt.Sprintf("%s refuses the secret access key: it does not belong to the access key ID.", e.server())
	case "ExpiredToken", "TokenRefreshRequired":
		return "The session token of the credentials has expired."
	case "InvalidToken":
		return "The session token of the credentials is not valid."
	case "RequestTimeTooSkewed":
		return fmt.Sprintf("The clocks of this machine and of %s differ too much.", e.server())
	case "AuthorizationHeaderMalformed", "PermanentRedirect", "IllegalLocationConstraintException":
		return fmt.Sprintf("The bucket %s is in another region than the one that is configured: %s.", e.Bucket, errorText(e.Err))
	case "InvalidBucketName":
		return fmt.Sprintf("%q can't be the name of a bucket.", e.Bucket)
	}
	return ""
}

func explainNetwork(e *Error) string {
	if errors.Is(e.Err, context.DeadlineExceeded) {
		return fmt.Sprintf("%s did not respond in time.", e.server())
	}
	var (
		dns *net.DNSError
		op  *net.OpError
	)
	switch {
	case errors.As(e.Err, &dns):
		return fmt.Sprintf("The host of %s can't be found: there is no such name in DNS (%s).", e.server(), dns.Name)
	case errors.Is(e.Err, syscall.ECONNREFUSED):
		return fmt.Sprintf("%s can't be reached: it refuses the connection.", e.server())
	case errors.As(e.Err, &op) && op.Timeout():
		return fmt.Sprintf("%s did not respond in time.", e.server())
	case errors.As(e.Err, &op) && op.Op == "dial":
		return fmt.Sprintf("%s can't be reached.", e.server())
	case errors.As(e.Err, &op):
		return fmt.Sprintf("%s ended the connection.", e.server())
	}
	return ""
}

func explainKind(e *Error) string {
	switch {
	case errors.Is(e.Kind, ErrReadOnly):
		return "The repository is read-only: spec.readOnly of the BackupRepository is true."
	case errors.Is(e.Kind, ErrLocked):
		return fmt.Sprintf("Bucket %s does not let %s be deleted or replaced yet: an object lock or a retention policy keeps it.", e.Bucket, e.Key)
	case errors.Is(e.Kind, ErrNoBucket):
		return fmt.Sprintf("There is no bucket %s at %s.", e.Bucket, e.server())
	case errors.Is(e.Kind, ErrDenied):
		return fmt.Sprintf("The credentials may not %s in bucket %s at %s.", deniedVerb(e.Op), e.Bucket, e.server())
	case errors.Is(e.Kind, ErrUnavailable) && e.isS3():
		return fmt.Sprintf("%s does not work at the moment: %s.", e.server(), strings.TrimSuffix(errorText(e.Err), "."))
	case errors.Is(e.Kind, ErrNotFound):
		return fmt.Sprintf("There is no object %s in bucket %s.", e.Key, e.Bucket)
	}
	return ""
}

func deniedVerb(op string) string {
	verb, ok := map[string]string{
		"put": "write objects", "get": "read objects", "read": "read objects", "stat": "read objects",
		"list": "list objects", "delete": "delete objects",
	}[op]
	if !ok {
		return op
	}
	return verb
}
