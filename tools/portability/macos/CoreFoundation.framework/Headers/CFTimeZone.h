// What Abseil calls of macOS' CoreFoundation, for tools/cross_test: the SDK is
// Apple's.

#ifndef WHEELCACHE_TOOLS_PORTABILITY_MACOS_CFTIMEZONE_H_
#define WHEELCACHE_TOOLS_PORTABILITY_MACOS_CFTIMEZONE_H_

extern "C" {

using CFIndex = long;
using CFStringEncoding = unsigned;
using CFStringRef = const struct __CFString*;
using CFTimeZoneRef = const struct __CFTimeZone*;

constexpr CFStringEncoding kCFStringEncodingUTF8 = 0x08000100;

CFTimeZoneRef CFTimeZoneCopyDefault();
CFStringRef CFTimeZoneGetName(CFTimeZoneRef zone);
CFIndex CFStringGetLength(CFStringRef string);
CFIndex CFStringGetMaximumSizeForEncoding(CFIndex length,
                                          CFStringEncoding encoding);
unsigned char CFStringGetCString(CFStringRef string, char* to, CFIndex size,
                                 CFStringEncoding encoding);
void CFRelease(const void* object);

}  // extern "C"

#endif  // WHEELCACHE_TOOLS_PORTABILITY_MACOS_CFTIMEZONE_H_
