package testweb

import "net/http"

// types is a hardship: links to bodies other than HTML. A crawler that wants only
// HTML need not read them.
var types = hardship{
	bit: Types, name: "types",
	doc: "3 % of the pages are PDF files or images",
	leaves: []leaf{
		{16, ofType("application/pdf", "%PDF-1.7\n%\xe2\xe3\xcf\xd3\n")},
		{16, ofType("image/png", "\x89PNG\r\n\x1a\n")},
	},
}

func ofType(contentType, magic string) *fate {
	return &fate{
		name: contentType, outcome: "type", status: http.StatusOK,
		answer: func(_ *Web, _ page, _ int, answer *answer) {
			answer.contentType = contentType
			answer.body = func(dst []byte) []byte {
				dst = append(dst, magic...)
				return append(dst, make([]byte, 4096)...)
			}
		},
	}
}
