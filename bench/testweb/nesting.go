package testweb

import "strings"

// nesting is a hardship: links inside 5,000 nested elements, and after the end
// tags of these. Parsers treat some of the kinds of elements specially.
var nesting = hardship{
	bit: Nesting, name: "nesting",
	doc: "pages of 5,000 nested elements with links at the bottom",
	corner: func(c *corners) {
		const levels = 5000
		s := c.site("nesting.corner.test")
		entry := s.enter("/")
		var paths []string
		for _, element := range strings.Fields("div b font a1 ul-li table-tr-td blockquote svg-g") {
			path := "/" + element
			paths = append(paths, path)
			tags := strings.Split(element, "-")
			open := strings.Repeat("<"+strings.Join(tags, "><")+">", levels)
			p := s.page(path)
			title := p.titleOf()
			p.document(title, []byte("<!DOCTYPE html><title>"+title+"</title>"+open+
				"<a href='/bottom"+path+"'>bottom</a><noscript><a href='/bare"+path+"'>bare</a></noscript>"+strings.Repeat("</"+tags[0]+">", levels)+"<a href='/behind"+path+"'>behind</a>"))
			s.pages("/bottom"+path, "/bare"+path, "/behind"+path)
		}
		entry.html(paths...)
	},
}
