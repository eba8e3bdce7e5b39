package s3

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/smithy-go"

	"howdah.dev/howdah/pkg/objstore"
)

// tokenFiles are the variables that name the token which a pod shows to the cloud: with IAM roles for service accounts, and with EKS Pod
// Identity.
var tokenFiles = []string{"AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"}

// mostSaid of a cloud's own words is told: they end up in a condition.
const mostSaid = 300

// refusal is what the cloud said when it was asked for credentials and gave none; nil: it was not asked, or it may give some later. What the
// object store itself says is not looked at, whatever it is.
func refusal(err error) *objstore.IdentityError {
	store, cloud := (*smithy.OperationError)(nil), (*smithy.OperationError)(nil)
	if !errors.As(err, &store) || !errors.As(store.Err, &cloud) {
		return nil
	}
	var answered interface{ HTTPStatusCode() int }
	api := smithy.APIError(nil)
	if !errors.As(cloud.Err, &api) || !errors.As(cloud.Err, &answered) || passing(api, answered.HTTPStatusCode()) {
		return nil
	}
	said := strings.Join(strings.Fields(api.ErrorMessage()), " ")
	if len(said) > mostSaid {
		said = strings.TrimSpace(strings.ToValidUTF8(said[:mostSaid], "")) + "…"
	}
	return &objstore.IdentityError{Subject: subject(), Code: api.ErrorCode(), Message: said, Err: cause(err)}
}

// passing says that the cloud may answer in another way when it is asked again.
func passing(api smithy.APIError, status int) bool {
	if status < 400 || status >= 500 || status == http.StatusTooManyRequests || api.ErrorCode() == "IDPCommunicationError" {
		return true
	}
	return retry.ThrottleErrorCode{Codes: retry.DefaultThrottleErrorCodes}.IsErrorThrottle(api) == aws.TrueTernary
}

// subject is whom the token of this pod is for; empty if it has none. Only the cloud can tell whether the token is good, and the name is told
// to people only.
func subject() string {
	for _, variable := range tokenFiles {
		file := os.Getenv(variable)
		if file == "" {
			continue
		}
		token, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		parts := strings.Split(strings.TrimSpace(string(token)), ".")
		if len(parts) != 3 {
			continue
		}
		claims := struct{ Sub string }{}
		if body, err := base64.RawURLEncoding.DecodeString(parts[1]); err == nil && json.Unmarshal(body, &claims) == nil && claims.Sub != "" {
			return claims.Sub
		}
	}
	return ""
}
