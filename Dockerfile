# A static binary, the certificates of public authorities, and a user without rights.
#
#   docker build --tag crawler --build-arg VERSION="$(git describe --tags --always)" .
#   docker run --rm --volume crawls:/crawls crawler crawl --max-pages 20 https://go.dev/
#
# Crawls are kept in /crawls, a volume that the user of the image, 65532, can write. A directory of the
# host in its place must be writable for that user ("chown 65532 crawls"), or give --user "$(id -u)".
# Temporary files are in /tmp.
FROM golang:1.26.8 AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ARG VERSION=unknown
RUN make build VERSION="$VERSION" && mkdir -p /root-of-image/crawls /root-of-image/tmp && chmod 1777 /root-of-image/*

FROM scratch
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY --from=build /src/bin/crawler /usr/bin/crawler
# COPY keeps the modes of directories below the one that is copied. So every user can write /crawls and
# /tmp, whatever --user is. A new named volume gets the mode of /crawls.
COPY --from=build --chown=65532:65532 /root-of-image/ /
COPY LICENSE /
USER 65532:65532
ENV TMPDIR=/tmp
VOLUME /crawls
WORKDIR /crawls
ENTRYPOINT ["crawler"]
