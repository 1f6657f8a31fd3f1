# A static binary in an image that holds nothing else but licences, the list of its parts and the certificates of public
# authorities: no shell, no libraries, no user but a number. vramplan calls nobody but its database, whose certificates are
# mounted where they are needed (sslrootcert in VRAMPLAN_DATABASE), and with --hub-models the Hub.
FROM golang:1.26.8-bookworm AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
# What the service calls itself: docker build --build-arg VERSION=$(git describe --always --dirty) .
ARG VERSION=
RUN CGO_ENABLED=0 go build -trimpath -ldflags "-s -w -X main.stamped=$VERSION" -o /out/vramplan ./cmd/vramplan \
 && mkdir -p /out/data \
 && deploy/image/licenses.sh /out/licenses \
 && deploy/image/sbom.sh /out/vramplan /out/sbom.cdx.json

FROM scratch
COPY --from=build /out/vramplan /vramplan
# Of everything that is linked into it.
COPY --from=build /out/licenses /licenses
COPY --from=build /out/sbom.cdx.json /sbom.cdx.json
# By which --hub-models knows the Hub; an authority of one's own is mounted over it, or named by SSL_CERT_FILE.
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
# A new volume takes the owner of the folder that it is mounted over.
COPY --from=build --chown=65532:65532 /out/data /data
USER 65532:65532
WORKDIR /data
VOLUME /data
ENV VRAMPLAN_LISTEN=0.0.0.0:8080 \
    VRAMPLAN_DATABASE=file:/data/vramplan.db
EXPOSE 8080 9090
HEALTHCHECK --interval=10s --timeout=3s --start-period=10s CMD ["/vramplan", "health"]
ENTRYPOINT ["/vramplan"]
CMD ["serve"]
