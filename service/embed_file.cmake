# Writes OUTPUT: a C++ source in which the function NAME returns the bytes of INPUT.
# cmake -DINPUT=... -DOUTPUT=... -DNAME=... -P embed_file.cmake
file(READ ${INPUT} HEX_DIGITS HEX)
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," BYTES "${HEX_DIGITS}")
string(REGEX REPLACE "(0x[0-9a-f][0-9a-f],0x[0-9a-f][0-9a-f],0x[0-9a-f][0-9a-f],0x[0-9a-f][0-9a-f],0x[0-9a-f][0-9a-f],0x[0-9a-f][0-9a-f],0x[0-9a-f][0-9a-f],0x[0-9a-f][0-9a-f],)" "\\1\n" BYTES "${BYTES}")
file(WRITE ${OUTPUT} "#include \"service/embedded_files.h\"

namespace grokd::embedded {
namespace {
constexpr unsigned char kBytes[] = {
${BYTES}0};
}
std::string_view ${NAME}() { return {reinterpret_cast<const char*>(kBytes), sizeof(kBytes) - 1}; }
}  // namespace grokd::embedded
")
