# The one image of gpuyard: every component is `python -m gpuyard.<component>`. Build it with `make image`, which puts the
# wheels of this version and of all it needs into wheels/; nothing is fetched here.
#
# BASE     a small image with Python, the one that the wheels were made for
# BUILDER  the same Python for this machine's processor, which BASE need not be made for
ARG BASE=python:3.13-slim-bookworm
ARG BUILDER=$BASE
FROM $BUILDER AS installed
# By this label what earlier builds left is found and removed.
LABEL gpuyard.io/content=wheels
COPY wheels/ /wheels/
# A wheel is unpacked to be installed; the rest of an installation, programs and headers, would lie in a *.data folder.
RUN for wheel in /wheels/*.whl; do python3 -m zipfile -e "$wheel" /opt/gpuyard || exit 1; done \
    && ! ls -d /opt/gpuyard/*.data 2> /dev/null \
    && python3 -m compileall -q --invalidation-mode unchecked-hash /opt/gpuyard

FROM $BASE
COPY --from=installed /opt/gpuyard/ /opt/gpuyard/
ENV PYTHONPATH=/opt/gpuyard PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
USER 65532:65532
CMD ["python3", "-m", "gpuyard.cli"]
