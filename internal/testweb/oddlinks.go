package testweb

// oddLinks is a hardship: links in elements other than <a href>, and text that looks
// like a link but is not one. The content of <noscript> is for clients that do not run
// scripts, such as crawlers (HTML, 4.12.2). The content of <template> is not part of
// the document until a script or shadowrootmode inserts it. So a crawler is free to
// follow its links or not.
var oddLinks = hardship{
	bit: OddLinks, name: "odd-links",
	doc: "links in areas, frames, refreshes, noscript; not in comments, scripts, textareas",
	corner: func(c *corners) {
		s := c.site("links.corner.test")
		s.enter("/")
		page := func(name, head, body string, leads ...string) *resource {
			p := s.addListed("/" + name)
			p.document(p.titleOf(), []byte("<!DOCTYPE html><html><head><title>"+p.titleOf()+"</title>"+head+"</head>"+body+"</html>"))
			s.pages(leads...)
			return p
		}
		page("area", "", `<body><map name=m><area shape=rect href="/to/area"><AREA HREF='/to/area2' alt=""></map>`, "/to/area", "/to/area2")
		page("frames", "", `<frameset><frame src="/to/frame"><frame src='/to/frame2'></frameset>`, "/to/frame", "/to/frame2")
		page("iframe", "", `<body><iframe src="/to/iframe"><a href="/decoy/iframe">no</a></iframe><iframe srcdoc="<a href='/decoy/srcdoc'>no</a>"></iframe>`, "/to/iframe")
		page("refresh", `<META HTTP-EQUIV=Refresh CONTENT="5; URL='/to/refresh'">`, "<body>", "/to/refresh")
		page("refresh2", `<meta http-equiv="refresh" content="0;/to/refresh2">`, "<body>", "/to/refresh2")
		page("rel", `<link rel="next" href="/to/next"><link href="/to/prev" rel="PREV nofollowing"><link rel=alternate hreflang=de href=/to/de>`, "<body>", "/to/next", "/to/prev", "/to/de")
		page("canonical", `<link rel="canonical" href="/decoy/canonical">`, `<body><a href="/to/canonical">on</a>`, "/to/canonical")
		page("base", `<base href="/folder/sub/"><base href="/decoy/">`, `<body><a href="../to/base">on</a><a href="?q">on</a>`, "/folder/to/base", "/folder/sub/?q")
		page("late-base", "", `<body><a href="to/late-base">on</a><base href="/folder/late/">`, "/folder/late/to/late-base")
		page("bad-base", `<base href="data:text/html,x">`, `<body><a href="to/bad-base">on</a>`, "/to/bad-base")
		page("noscript", "", `<body><noscript><p><a href="/to/noscript">on</a></noscript>`, "/to/noscript")
		page("svg", "", `<body><svg><a href="/to/svg"><text>x</text></a><a xlink:href="/to/xlink"><text>y</text></a></svg>`, "/to/svg", "/to/xlink")
		page("case", "", `<BODY><A CLASS=x HREF = /to/case>on</A><a href=/to/case2/>on</a><a/href="/to/case3"/>on</a>`, "/to/case", "/to/case2/", "/to/case3")
		page("twice", "", `<body><a href="/to/twice" href="/decoy/twice">on</a><a data-href="/decoy/data" href="">here</a>`, "/to/twice")
		page("unclosed", "", `<body><p><a href="/to/unclosed">on <a href="/to/unclosed2">and on<b><a href='/to/unclosed3'`+" >", "/to/unclosed", "/to/unclosed2", "/to/unclosed3")
		page("none", `<style>a{background:url(/decoy/style)}</style>`, `<body><!-- <a href="/decoy/comment">no</a> --><textarea><a href="/decoy/textarea">no</a></textarea>
<script>document.write('<a href="/decoy/script">no</a>')</script><script>var page = "/decoy/string.html"</script>
<xmp><a href="/decoy/xmp">no</a></xmp><p title='<a href="/decoy/attribute">'>&lt;a href="/decoy/text"></p>
<img src="/decoy/picture.png" srcset="/decoy/small.png 1x, /decoy/large.png 2x"><link rel=stylesheet href="/decoy/style.css">
<form action="/decoy/form"><input formaction="/decoy/input"></form><![CDATA[<b x="]]>`)
		page("template", "", `<body><template><a href="/perhaps/template">perhaps</a></template>`)
		s.add("/perhaps/template", optional).html()
		page("schemes", "", `<body><a href="javascript:void 0">no</a><a href="mailto:a@corner.test">no</a><a href="ftp://links.corner.test/decoy">no</a><a href="http://a b/">no</a><a href="http://[::1">no</a>`).
			refuses("scheme", 3).refuses("malformed", 2)
	},
}
