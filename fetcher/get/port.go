package get

import (
	"fmt"
	"slices"
	"strconv"
)

// badPorts are ports, with the names of their services, that are not for the web. An HTTP
// request might harm these services. They are the bad ports of the Fetch standard (review
// draft of June 2026), which browsers refuse too, and the port of Redis. Redis executes
// lines of text as commands and skips unknown ones.
var badPorts = map[uint16]string{
	0: "", 1: "tcpmux", 7: "echo", 9: "discard", 11: "systat", 13: "daytime", 15: "netstat", 17: "qotd", 19: "chargen",
	20: "ftp-data", 21: "ftp", 22: "ssh", 23: "telnet", 25: "smtp", 37: "time", 42: "name", 43: "nicname", 53: "domain",
	69: "tftp", 77: "", 79: "finger", 87: "", 95: "supdup", 101: "hostname", 102: "iso-tsap", 103: "gppitnp",
	104: "acr-nema", 109: "pop2", 110: "pop3", 111: "sunrpc", 113: "auth", 115: "sftp", 117: "uucp-path", 119: "nntp",
	123: "ntp", 135: "epmap", 137: "netbios-ns", 139: "netbios-ssn", 143: "imap", 161: "snmp", 179: "bgp", 389: "ldap",
	427: "svrloc", 465: "submissions", 512: "exec", 513: "login", 514: "shell", 515: "printer", 526: "tempo",
	530: "courier", 531: "chat", 532: "netnews", 540: "uucp", 548: "afp", 554: "rtsp", 556: "remotefs", 563: "nntps",
	587: "submission", 601: "syslog-conn", 636: "ldaps", 989: "ftps-data", 990: "ftps", 993: "imaps", 995: "pop3s",
	1719: "h323gatestat", 1720: "h323hostcall", 1723: "pptp", 2049: "nfs", 3659: "apple-sasl", 4045: "npp",
	4190: "sieve", 5060: "sip", 5061: "sips", 6000: "x11", 6566: "sane-port", 6665: "irc", 6666: "irc", 6667: "irc",
	6668: "irc", 6669: "irc", 6679: "osaut", 6697: "ircs-u", 10080: "amanda",
	6379: "redis",
}

// PortError reports a URL whose port belongs to a service that is not the web.
type PortError struct{ Port uint16 }

func (e *PortError) Error() string {
	service := "no web server's"
	if name := badPorts[e.Port]; name != "" {
		service = "that of " + name
	}
	return fmt.Sprintf("port %d is %s and not requested (--allow-port %d)", e.Port, service, e.Port)
}

// CheckPort is the function CheckPort for Config.AllowPorts.
func (c *Client) CheckPort(port string) error { return CheckPort(port, c.config.AllowPorts) }

// CheckPort returns a *PortError for a port that belongs to a service other than the web, unless it is
// allowed. An empty port means the default port of the scheme.
func CheckPort(port string, allowed []uint16) error {
	number, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return nil // empty, or not a valid port
	}
	if _, bad := badPorts[uint16(number)]; bad && !slices.Contains(allowed, uint16(number)) {
		return &PortError{uint16(number)}
	}
	return nil
}
