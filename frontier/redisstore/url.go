package redisstore

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
)

// Options returns the options for a URL: see ParseURL. A password, unless it is empty, replaces the one in the URL. With rediss://,
// ca names a PEM file with the certificates of authorities that are trusted; empty means those of the system.
func Options(url, password, ca string) (*redis.UniversalOptions, error) {
	options, err := ParseURL(url)
	if err == nil && ca != "" {
		if options.TLSConfig == nil {
			return nil, errors.New("a file of certificates is for a rediss:// URL")
		}
		options.TLSConfig, err = TLSConfig(ca)
	}
	if err != nil {
		return nil, err
	}
	options.Password = cmp.Or(password, options.Password)
	return options, nil
}

// ParseURL returns the options for a URL of one of these forms:
//
//	redis://[[user]:password@]host[:port][,host[:port]…][/database]
//	redis+sentinel://[[user]:password@]host[:port][,host[:port]…]/master[/database]
//	rediss://…           the same over TLS, also rediss+sentinel://…
//	unix://[[user]:password@]/path/of/socket[?db=database]
//
// Several hosts are nodes of one cluster, or Sentinels that watch the primary with the name master. For a
// cluster, one of its nodes is enough. The default port is 6379, and 26379 for Sentinels. User and password are those
// of the servers; ?sentinel_username=USER&sentinel_password=PASSWORD are those of the Sentinels. With TLS,
// ?ca=FILE names a PEM file with certificates of authorities. Only these authorities are trusted then, not those of the
// system. User and password must be percent-encoded if they contain delimiters. Errors never show the user or the
// password.
func ParseURL(raw string) (*redis.UniversalOptions, error) {
	scheme, rest, found := strings.Cut(raw, "://")
	plain, sentinel := strings.CutSuffix(scheme, "+sentinel")
	if !found || plain != "redis" && plain != "rediss" && scheme != "unix" {
		return nil, errors.New("redisstore: a Redis URL begins with redis://, rediss://, redis+sentinel://, rediss+sentinel:// or unix://")
	}
	rest, query, _ := strings.Cut(rest, "?")
	if strings.Contains(query, "@") { // the ? may belong to a password, and an error would show a part of it
		return nil, errors.New("redisstore: the Redis URL has an @ behind a ?: write the ? of a user or password as %3F, and the @ of a parameter as %40")
	}
	values, err := url.ParseQuery(query)
	if err != nil {
		return nil, errors.New("redisstore: what follows the ? of the Redis URL is no query")
	}
	opt := new(redis.UniversalOptions)
	if at := strings.LastIndexByte(rest, '@'); at >= 0 {
		if err := setUser(opt, rest[:at]); err != nil {
			return nil, err
		}
		rest = rest[at+1:]
	}
	ca, database := values.Get("ca"), values.Get("db")
	switch scheme {
	case "unix":
		if !strings.HasPrefix(rest, "/") {
			return nil, errors.New("redisstore: a unix:// URL names the path of a socket, which begins with /")
		}
		opt.Addrs = []string{rest}
	default:
		hosts, path, _ := strings.Cut(rest, "/")
		port := "6379"
		if sentinel {
			port = "26379"
			if opt.MasterName, path, _ = strings.Cut(path, "/"); opt.MasterName == "" {
				return nil, errors.New("redisstore: a redis+sentinel:// URL names the primary after the Sentinels: redis+sentinel://HOST[,HOST...]/MASTER")
			}
		}
		if path != "" {
			database = path
		}
		if opt.Addrs, err = addresses(hosts, port); err != nil {
			return nil, err
		}
	}
	if database != "" {
		if opt.DB, err = strconv.Atoi(database); err != nil || opt.DB < 0 {
			return nil, fmt.Errorf("redisstore: database %q of the Redis URL is no number", database)
		}
	}
	if opt.DB != 0 && len(opt.Addrs) > 1 && !sentinel {
		return nil, fmt.Errorf("redisstore: database %d of a cluster: it has only 0", opt.DB)
	}
	for name := range values {
		if name != "ca" && name != "db" && !(sentinel && (name == "sentinel_username" || name == "sentinel_password")) {
			return nil, errors.New("redisstore: the Redis URL has a parameter other than ca and db, or those of Sentinel")
		}
	}
	opt.SentinelUsername, opt.SentinelPassword = values.Get("sentinel_username"), values.Get("sentinel_password")
	if plain == "rediss" {
		opt.TLSConfig, err = TLSConfig(ca)
	} else if ca != "" {
		err = errors.New("redisstore: the Redis URL names a CA, which is for rediss://")
	}
	return opt, err
}

// setUser parses "password", ":password" and "user:password".
func setUser(opt *redis.UniversalOptions, info string) (err error) {
	user, password, found := strings.Cut(info, ":")
	if !found {
		user, password = "", user
	}
	if opt.Username, err = url.PathUnescape(user); err == nil {
		opt.Password, err = url.PathUnescape(password)
	}
	if err != nil {
		return errors.New("redisstore: user or password of the Redis URL is not percent-encoded")
	}
	return nil
}

// addresses returns the hosts of a list, each with its port, or with the given one.
func addresses(list, usual string) (addrs []string, err error) {
	for host := range strings.SplitSeq(list, ",") {
		u, err := url.Parse("redis://" + host)
		if err != nil || u.Hostname() == "" {
			return nil, fmt.Errorf("redisstore: the Redis URL has a host %q, want host or host:port", host)
		}
		port := u.Port()
		if port == "" {
			port = usual
		}
		addrs = append(addrs, net.JoinHostPort(u.Hostname(), port))
	}
	return addrs, nil
}

// TLSConfig returns a configuration that trusts the authorities in the PEM file ca, or those of the
// system if ca is empty.
func TLSConfig(ca string) (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if ca == "" {
		return config, nil
	}
	pem, err := os.ReadFile(ca)
	if err != nil {
		return nil, fmt.Errorf("redisstore: read the CA of Redis: %w", err)
	}
	config.RootCAs = x509.NewCertPool()
	if !config.RootCAs.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("redisstore: CA file %q holds no certificate", ca)
	}
	return config, nil
}
