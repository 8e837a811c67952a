package sqs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
)

// StaticCredentials returns credentials that do not change.
func StaticCredentials(keyID, secret string) aws.CredentialsProvider {
	return aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
		return aws.Credentials{AccessKeyID: keyID, SecretAccessKey: secret, Source: "static"}, nil
	})
}

// FileCredentials returns the credentials in a file in the form of ~/.aws/credentials: those of the profile default, with
// aws_access_key_id, aws_secret_access_key and, for temporary ones, aws_session_token. The file is read for each request, so
// another program can replace it. No error has a secret.
func FileCredentials(path string) aws.CredentialsProvider {
	return aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
		text, err := os.ReadFile(path)
		if err != nil {
			return aws.Credentials{}, fmt.Errorf("sqs: credentials: %w", err)
		}
		keys, profile := make(map[string]string), "default"
		for line := range strings.Lines(string(text)) {
			line = strings.TrimSpace(line)
			if name, is := strings.CutPrefix(line, "["); is {
				profile = strings.TrimSpace(strings.TrimSuffix(name, "]"))
			} else if name, value, is := strings.Cut(line, "="); is && profile == "default" {
				keys[strings.ToLower(strings.TrimSpace(name))] = strings.TrimSpace(value)
			}
		}
		c := aws.Credentials{AccessKeyID: keys["aws_access_key_id"], SecretAccessKey: keys["aws_secret_access_key"],
			SessionToken: keys["aws_session_token"], Source: "file"}
		if !c.HasKeys() {
			return aws.Credentials{}, errors.New("sqs: credentials: " + path + " has no aws_access_key_id and aws_secret_access_key of the profile default")
		}
		return c, nil
	})
}
